import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

/** Get URL: prints the status and the length of what java.net.http gets. */
public class Get {
    public static void main(String[] arguments) {
        try {
            HttpClient client = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build();
            HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0])).build();
            var answer = client.send(request, BodyHandlers.ofByteArray());
            System.out.println(answer.statusCode() + " " + answer.body().length);
        } catch (Exception error) {
            System.out.println("error " + error);
        }
    }
}
