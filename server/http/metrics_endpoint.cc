#include "server/http/metrics_endpoint.h"

#include <zlib.h>

#include <limits>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/http/http_status.h"
#include "server/http/port/http_port.h"
#include "server/http/port/router.h"

namespace gpupool::server {
namespace {

// Few, so that the HTTP port and this one together leave open files for the
// rest of the server.
constexpr ConnectionLimits kMetricsConnections = {.total = 256,
                                                  .by_client = 64};
constexpr size_t kScrapes = 2;  // at a time
constexpr uint64_t kScrapedBytes = 64 << 20;
constexpr absl::Duration kScrapesEnd = absl::Seconds(1);

// zlib's numbers for the largest window with a header of gzip, and for the
// memory that it takes by default.
constexpr int kGzipWindow = 15 + 16;
constexpr int kDefaultMemory = 8;

// Returns whether a client accepts gzip (RFC 9110, 12.5.3). "*" does not count.
bool AcceptsGzip(const HttpRequest& request) {
  const std::string accepted =
      absl::AsciiStrToLower(request.Header("Accept-Encoding"));
  for (const absl::string_view coding : absl::StrSplit(accepted, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(coding, absl::MaxSplits(';', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
    if (name != "gzip" && name != "x-gzip") continue;
    absl::string_view weight = absl::StripAsciiWhitespace(parts.second);
    double number = 1;
    const bool weighs =
        absl::ConsumePrefix(&weight, "q=") && absl::SimpleAtod(weight, &number);
    return !weighs || number > 0;
  }
  return false;
}

// Returns the text in gzip; nothing if zlib cannot pack it.
std::optional<std::string> Gzipped(const std::string& text) {
  z_stream stream = {};
  if (text.size() > std::numeric_limits<uInt>::max() ||
      deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow,
                   kDefaultMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    return std::nullopt;
  }
  std::string packed(deflateBound(&stream, text.size()), '\0');
  // zlib reads from there only.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return std::nullopt;
  return packed;
}

HttpResponse MetricsAnswer(std::string text, const HttpRequest& request) {
  HttpResponse response;
  response.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  response.Set("Vary", "Accept-Encoding");
  auto packed = AcceptsGzip(request) ? Gzipped(text) : std::nullopt;
  if (packed.has_value()) response.Set("Content-Encoding", "gzip");
  response.body = packed.has_value() ? *std::move(packed) : std::move(text);
  return response;
}

HttpResponse PlainError(const absl::Status& error, int http_status) {
  HttpResponse response;
  response.status = http_status != 0 ? http_status : HttpStatusOf(error.code());
  response.Set("Content-Type", "text/plain; charset=utf-8");
  response.body = absl::StrCat(error.message(), "\n");
  return response;
}

HttpRouter MetricsRouter(std::function<std::string()> text) {
  HttpRouter router({.answer =
                         [](HttpRequest& request) {
                           return PlainError(
                               absl::NotFoundError(absl::StrCat(
                                   "no ", request.method, " ", request.path,
                                   "; the metrics are at /metrics")),
                               0);
                         },
                     .error = PlainError});
  router.Add({.method = "GET",
              .pattern = "/metrics",
              .lane = Lane::kGet,
              .answer = [text = std::move(text)](HttpRequest& request) {
                return MetricsAnswer(text(), request);
              }});
  return router;
}

}  // namespace

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<HttpPort> port)
    : port_(std::move(port)) {}

MetricsEndpoint::~MetricsEndpoint() = default;

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& listen, uint16_t port,
    std::function<std::string()> text) {
  HttpPortOptions options{.address = listen,
                          .port = port,
                          .connections = kMetricsConnections,
                          .answer_bytes = kScrapedBytes,
                          .threads = {}};
  options.deadlines.finish = kScrapesEnd;
  options.threads[static_cast<size_t>(Lane::kGet)] = kScrapes;
  auto served = HttpPort::Start(options, MetricsRouter(std::move(text)));
  if (!served.ok()) {
    return absl::Status(
        served.status().code(),
        absl::StrCat("--metrics-port: ", served.status().message()));
  }
  return absl::WrapUnique(new MetricsEndpoint(*std::move(served)));
}

uint16_t MetricsEndpoint::port() const {
  return static_cast<uint16_t>(port_->port());
}

}  // namespace gpupool::server
