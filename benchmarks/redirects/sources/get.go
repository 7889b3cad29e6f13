// get URL: prints the status and the length of what net/http gets.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Println("error", err)
		return
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println(answer.StatusCode, len(body))
}
