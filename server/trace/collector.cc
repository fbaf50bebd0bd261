#include "server/trace/collector.h"

#include <fcntl.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/utf8.h"
#include "gpupool/otlp/v1/trace.pb.h"

namespace gpupool::server {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(2);
constexpr absl::Duration kAnswerTimeout = absl::Seconds(10);
constexpr absl::Duration kAddressesKept = absl::Seconds(30);
constexpr absl::Duration kBetweenShutdowns = absl::Milliseconds(50);
constexpr absl::Duration kLongestRetryAfter = absl::Seconds(60);
constexpr size_t kLongestAnswer = size_t{1} << 20;
constexpr size_t kLongestReason = 256;

std::unique_ptr<httplib::ClientImpl> MakeClient(const CollectorUrl& url) {
  std::unique_ptr<httplib::ClientImpl> http;
  if (url.tls) {
    http = std::make_unique<httplib::SSLClient>(url.host, url.port);
  } else {
    http = std::make_unique<httplib::ClientImpl>(url.host, url.port);
  }
  http->set_connection_timeout(absl::ToChronoMicroseconds(kConnectTimeout));
  http->set_read_timeout(absl::ToChronoMicroseconds(kAnswerTimeout));
  http->set_write_timeout(absl::ToChronoMicroseconds(kAnswerTimeout));
  http->set_keep_alive(true);
  // The path is sent as it was written.
  http->set_url_encode(false);
  return http;
}

// Returns whether another address of the host may do.
bool IsUnreachable(httplib::Error error) {
  return error == httplib::Error::Connection ||
         error == httplib::Error::ConnectionTimeout;
}

// Returns whether the protocol lets a client try again after this status.
bool MayRetry(int http_status) {
  return http_status == 429 || http_status == 502 || http_status == 503 ||
         http_status == 504;
}

// Returns the collector's text as a line of the log may have it.
std::string LoggableText(const std::string& text) {
  std::string shown(engine::CutUtf8(text, kLongestReason));
  std::replace_if(
      shown.begin(), shown.end(),
      [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f || c == '"'; },
      ' ');
  return shown;
}

// Reads the body of an answer with status 200. An answer that is no message
// rejects nothing.
CollectorAnswer ReadTaken(const std::string& body) {
  CollectorAnswer answer{.taken = true};
  otlp::v1::ExportTraceResponse message;
  if (!message.ParseFromString(body)) return answer;
  const auto& partial = message.partial_success();
  answer.rejected =
      static_cast<uint64_t>(std::max<int64_t>(0, partial.rejected_spans()));
  if (answer.rejected > 0) {
    answer.problem =
        absl::StrCat("it rejected ", answer.rejected,
                     " spans: ", LoggableText(partial.error_message()));
  }
  return answer;
}

// Returns the outcome of a request that was not answered.
CollectorAnswer Unanswered(httplib::Error error) {
  CollectorAnswer answer{.may_retry = true};
  switch (error) {
    case httplib::Error::SSLLoadingCerts:
    case httplib::Error::SSLServerVerification:
      answer.may_retry = false;
      answer.problem =
          "its certificate is not trusted; add its authority to the system's, "
          "or name the PEM file by the environment variable SSL_CERT_FILE";
      break;
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
      answer.problem = "it cannot be reached";
      break;
    default:
      answer.problem = "it closed the connection or did not answer in time";
  }
  return answer;
}

}  // namespace

std::optional<absl::Duration> ReadRetryAfter(const std::string& text) {
  if (text.empty() ||
      !std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) {
    return std::nullopt;
  }
  uint32_t seconds = 0;
  if (!absl::SimpleAtoi(text, &seconds)) return kLongestRetryAfter;
  return std::min(absl::Seconds(seconds), kLongestRetryAfter);
}

Collector::Collector(CollectorUrl url, CollectorOptions options)
    : url_(std::move(url)),
      options_(std::move(options)),
      lookup_(url_.host, options_.look_up),
      http_(MakeClient(url_)) {
  http_->set_socket_options(
      [this](int socket) { KeepSocket(fcntl(socket, F_DUPFD_CLOEXEC, 0)); });
}

Collector::~Collector() { KeepSocket(-1); }

void Collector::KeepSocket(int socket) {
  absl::MutexLock lock(&mutex_);
  if (socket_ >= 0) close(socket_);
  socket_ = socket;
}

void Collector::Watch(absl::Time end) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithDeadline(absl::Condition(this, &Collector::MustEnd), end);
  // Repeated, since a connection that is about to be made is not ended by this.
  while (sending_) {
    if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
    mutex_.AwaitWithTimeout(absl::Condition(this, &Collector::HasEnded),
                            kBetweenShutdowns);
  }
}

std::vector<std::string> Collector::Addresses(absl::Time end) {
  const absl::Time now = absl::Now();
  if (addresses_.empty() || now > addresses_until_ ||
      addresses_until_ - now > kAddressesKept) {
    addresses_ = lookup_.Find(end);
    addresses_until_ = absl::Now() + kAddressesKept;
  }
  return addresses_;
}

CollectorAnswer Collector::Send(const std::string& body) {
  const absl::Time end = absl::Now() + options_.limit;
  const std::vector<std::string> addresses = Addresses(end);
  if (addresses.empty()) {
    return {.may_retry = true,
            .problem = "the address of its host was not found"};
  }
  {
    absl::MutexLock lock(&mutex_);
    sending_ = true;
  }
  std::thread watch([this, end] { Watch(end); });
  CollectorAnswer answer = SendTo(addresses, body, end);
  {
    absl::MutexLock lock(&mutex_);
    sending_ = false;
  }
  watch.join();
  if (http_->is_socket_open() == 0) KeepSocket(-1);
  return answer;
}

CollectorAnswer Collector::SendTo(const std::vector<std::string>& addresses,
                                  const std::string& body, absl::Time end) {
  httplib::Request request;
  request.method = "POST";
  request.path = url_.path;
  request.body = body;
  request.set_header("Host", url_.authority);
  request.set_header("User-Agent", "gpupool");
  request.set_header("Content-Type", "application/x-protobuf");
  std::string answer;
  request.content_receiver = [&](const char* data, size_t size, uint64_t,
                                 uint64_t) {
    if (size > kLongestAnswer - answer.size()) return false;
    answer.append(data, size);
    return true;
  };
  httplib::Error error = httplib::Error::Connection;
  for (const std::string& address : addresses) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_ || absl::Now() >= end) break;
    }
    http_->set_hostname_addr_map({{url_.host, address}});
    const httplib::Result result = http_->send(request);
    if (result && result->status == 200) return ReadTaken(answer);
    if (result) {
      return {.may_retry = MayRetry(result->status),
              .problem =
                  absl::StrCat("it answered with HTTP status ", result->status),
              .retry_after =
                  ReadRetryAfter(result->get_header_value("Retry-After"))};
    }
    error = result.error();
    if (!IsUnreachable(error)) break;
  }
  addresses_.clear();
  return Unanswered(error);
}

void Collector::Stop() {
  lookup_.Stop();
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
}

}  // namespace gpupool::server
