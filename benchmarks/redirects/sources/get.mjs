// get.mjs CLIENT URL: prints the status and the length of what it gets.
const [client, url] = process.argv.slice(2);

async function get() {
  if (client === "fetch") {
    const answer = await fetch(url);
    return [answer.status, (await answer.arrayBuffer()).byteLength];
  }
  if (client === "got") {
    const { got } = await import("got");
    const answer = await got(url, { throwHttpErrors: false, responseType: "buffer", retry: { limit: 0 } });
    return [answer.statusCode, answer.body.length];
  }
  if (client === "axios") {
    const { default: axios } = await import("axios");
    const answer = await axios.get(url, { responseType: "arraybuffer", validateStatus: () => true });
    return [answer.status, answer.data.length];
  }
  const { default: superagent } = await import("superagent");
  const answer = await superagent.get(url).ok(() => true).buffer(true).responseType("arraybuffer");
  return [answer.status, answer.body.length];
}

try {
  console.log(...(await get()));
} catch (error) {
  console.log(`error ${error.name}: ${error.message}`);
}
