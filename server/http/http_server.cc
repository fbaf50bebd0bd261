#include "server/http/http_server.h"

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/auth/access_gate.h"
#include "server/http/http_status.h"
#include "server/http/json_gateway.h"
#include "server/http/port/http_port.h"
#include "server/http/port/router.h"
#include "server/http/rest_routes.h"
#include "server/http/route_access.h"
#include "server/http/served_certificate.h"
#include "server/http/web_routes.h"

namespace gpupool::server {
namespace {

// Probes are short, so that few threads keep up with many.
constexpr size_t kHealthThreads = 2;
constexpr size_t kGetThreads = 4;  // for the other GETs of /v2
constexpr absl::Duration kGetTimeout = absl::Seconds(5);  // of a GET of /v2
// Limit of a unary call of the API, or of a POST of /v2, that sets none.
constexpr absl::Duration kCallTimeout = absl::Seconds(60);

TrustedHosts HostsOf(const HttpServerOptions& options) {
  return {.loopback_only = IsLoopback(options.address), .names = options.names};
}

RestOptions RestSettings(const HttpServerOptions& options) {
  return {.get_timeout = kGetTimeout,
          .most_body_bytes = options.rest_body_bytes,
          .most_calls = options.rest_calls,
          .post_timeout = kCallTimeout,
          .trusted = HostsOf(options)};
}

JsonGatewayOptions GatewayOptions(const HttpServerOptions& options) {
  return {.most_body_bytes = options.max_body_bytes,
          .most_calls = options.api_calls,
          .most_streams = options.api_streams,
          .unary_timeout = kCallTimeout,
          .stream_fails_within = options.stream_fails_within,
          .trusted = HostsOf(options)};
}

// Returns the route of requests that no other one takes.
HttpRoute NoSuchRoute(size_t most_body_bytes) {
  return {.most_body_bytes = most_body_bytes,
          .answer =
              [](HttpRequest& request) {
                return ErrorAnswer(absl::NotFoundError(
                    absl::StrCat("no ", request.method, " ", request.path)));
              },
          .error = ErrorAnswer};
}

HttpPortOptions PortOptions(const HttpServerOptions& options,
                            ServedCertificate* certificate) {
  HttpPortOptions port{.address = options.address, .port = options.port};
  port.handshakes.total = options.handshakes;
  port.asks_users = options.gate != nullptr && options.gate->asks_users();
  // Lets each call have an answer as large as the largest body.
  port.answer_bytes = uint64_t{options.rest_calls} * options.rest_body_bytes +
                      uint64_t{options.api_calls} * options.max_body_bytes;
  port.threads[static_cast<size_t>(Lane::kHealth)] = kHealthThreads;
  port.threads[static_cast<size_t>(Lane::kGet)] = kGetThreads;
  // One more than calls may be open, so that there is a thread that answers a
  // request too many.
  port.threads[static_cast<size_t>(Lane::kPost)] = options.rest_calls + 1;
  port.threads[static_cast<size_t>(Lane::kApi)] =
      options.api_calls + options.api_streams + 1;
  if (certificate != nullptr) {
    port.set_up_tls = [certificate](SSL_CTX& context) {
      return certificate->SetUp(context);
    };
  }
  return port;
}

}  // namespace

class HttpServer::Gateway {
 public:
  Gateway(const HttpServerOptions& options,
          std::unique_ptr<ServedCertificate> certificate,
          const std::shared_ptr<grpc::Channel>& channel)
      : options_(options),
        certificate_(std::move(certificate)),
        rest_(RestSettings(options), channel),
        json_(GatewayOptions(options), channel) {}

  ~Gateway() {
    if (port_ == nullptr) return;
    port_->BeginStop();
    const absl::Time end = absl::Now() + options_.calls_end;
    json_.Close(end);
    rest_.Close(end);
  }

  absl::Status Start() {
    HttpRouter router(NoSuchRoute(options_.max_body_bytes),
                      GuardOf(options_.gate));
    rest_.AddTo(&router);
    AddWebRoutes(&router);
    json_.AddRoutes(&router);
    auto port = HttpPort::Start(PortOptions(options_, certificate_.get()),
                                std::move(router));
    if (!port.ok()) return port.status();
    port_ = *std::move(port);
    return absl::OkStatus();
  }

  int port() const { return port_->port(); }

 private:
  const HttpServerOptions options_;
  const std::unique_ptr<ServedCertificate> certificate_;  // null: plain
  RestRoutes rest_;
  JsonGateway json_;
  std::unique_ptr<HttpPort> port_;  // last, since it uses the others
};

HttpServer::HttpServer(std::unique_ptr<Gateway> gateway)
    : gateway_(std::move(gateway)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const HttpServerOptions& options, std::shared_ptr<grpc::Channel> channel) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("HTTP port ", options.port, " is not in 0 .. 65535"));
  }
  std::unique_ptr<ServedCertificate> certificate;
  if (options.tls.on()) {
    auto loaded = ServedCertificate::Load(options.tls);
    if (!loaded.ok()) return loaded.status();
    certificate = *std::move(loaded);
  }
  auto gateway = std::make_unique<Gateway>(options, std::move(certificate),
                                           std::move(channel));
  const absl::Status started = gateway->Start();
  if (!started.ok()) return started;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(gateway)));
}

int HttpServer::port() const { return gateway_->port(); }

}  // namespace gpupool::server
