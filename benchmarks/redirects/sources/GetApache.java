import org.apache.hc.client5.http.classic.methods.HttpGet;
import org.apache.hc.client5.http.config.RequestConfig;
import org.apache.hc.client5.http.impl.classic.HttpClients;
import org.apache.hc.client5.http.impl.classic.CloseableHttpClient;
import org.apache.hc.core5.http.io.entity.EntityUtils;
import org.apache.hc.core5.util.Timeout;

/** GetApache URL: prints the status and the length of what Apache HttpClient 5 gets. */
public class GetApache {
    public static void main(String[] arguments) {
        RequestConfig patience = RequestConfig.custom().setResponseTimeout(Timeout.ofSeconds(90)).build();
        try (CloseableHttpClient client = HttpClients.custom().setDefaultRequestConfig(patience).build()) {
            String said = client.execute(new HttpGet(arguments[0]), answer -> {
                byte[] body = EntityUtils.toByteArray(answer.getEntity());
                return answer.getCode() + " " + body.length;
            });
            System.out.println(said);
        } catch (Exception error) {
            System.out.println("error " + error);
        }
    }
}
