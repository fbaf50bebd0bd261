#include "server/http/port/request_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/http/port/request_target.h"

namespace gpupool::server {

class RequestParser::Impl final
    : public boost::beast::http::basic_parser</*isRequest=*/true> {
 public:
  explicit Impl(const Limits& limits) : limits_(limits) {
    header_limit(static_cast<uint32_t>(limits.header_bytes) + 1);
    // ReadBody has the limit. The library takes none for a limit of 0.
    body_limit(std::numeric_limits<uint64_t>::max());
  }

  size_t Feed(absl::string_view bytes) {
    const bool in_header = !is_header_done();
    if (!in_header) return IsShortLastChunk(bytes) ? 0 : Put(bytes);
    const size_t empty_lines = got_some() ? 0 : BytesOfEmptyLines(bytes);
    header_bytes_ += empty_lines;
    bytes.remove_prefix(empty_lines);
    if (!got_some() && bytes == "\r") return empty_lines;
    const size_t room =
        limits_.header_bytes - std::min(limits_.header_bytes, header_bytes_);
    const size_t used = bytes.empty() ? 0 : Put(bytes.substr(0, room));
    header_bytes_ += used;
    CheckFolds(bytes.substr(0, used));
    if (!is_header_done() && bytes.size() >= room) FailAtHeaderLimit(bytes);
    return empty_lines + used;
  }

  void ReadBody(size_t most, bool keep) {
    most_body_bytes_ = most;
    keep_ = keep;
    eager(true);
    if (keep && content_length().has_value()) {
      request_.body.reserve(std::min<uint64_t>(*content_length(), most));
    }
  }

  HttpRequest& request() { return request_; }
  const std::optional<Failure>& failure() const { return failure_; }
  bool is_http_1_0() const { return version_ == 10; }

 private:
  using Code = boost::beast::error_code;
  using Text = boost::beast::string_view;

  static absl::string_view View(Text text) {
    return {text.data(), text.size()};
  }

  // RFC 9112, 2.2: a server ignores an empty line before a request.
  static size_t BytesOfEmptyLines(absl::string_view bytes) {
    const absl::string_view all = bytes;
    while (absl::ConsumePrefix(&bytes, "\r\n")) {
    }
    return all.size() - bytes.size();
  }

  // Returns whether the bytes may begin a last chunk and are too few to look
  // at. In debug builds the library aborts at the second look at a body that is
  // only a last chunk, unless it has five bytes. The shortest one has five.
  bool IsShortLastChunk(absl::string_view bytes) const {
    return chunked() && bytes.size() < 5 && absl::StartsWith(bytes, "0\r\n");
  }

  size_t Put(absl::string_view bytes) {
    namespace http = boost::beast::http;
    if (bytes.empty()) return 0;
    Code error;
    const size_t used =
        put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    if (!error || error == http::error::need_more || failure_.has_value()) {
      return used;
    }
    if (error == http::error::header_limit) {
      FailAtHeaderLimit(bytes);
    } else {
      failure_ = Failure{
          400, absl::StrCat("the request is malformed: ", error.message())};
    }
    return used;
  }

  // Refuses a header that goes on in the next line (RFC 9112, 5.2). The library
  // joins the lines, which come to it together.
  void CheckFolds(absl::string_view header_bytes) {
    if (failure_.has_value()) return;
    if (absl::StrContains(header_bytes, "\r\n ") ||
        absl::StrContains(header_bytes, "\r\n\t")) {
      failure_ =
          Failure{400, "a header goes on in the next line; write it in one"};
    }
  }

  // `bytes` are those that the library has not taken.
  void FailAtHeaderLimit(absl::string_view bytes) {
    if (failure_.has_value()) return;
    if (version_ == 0 && !absl::StrContains(bytes, '\n')) {
      failure_ = Failure{
          414,
          absl::StrCat("the request line has more than ", limits_.header_bytes,
                       " bytes; its path may have ", limits_.target_bytes)};
      return;
    }
    failure_ = Failure{
        431, absl::StrCat("the headers have more than ", limits_.header_bytes,
                          " bytes, which is the most over HTTP")};
  }

  // Makes the library stop with a failure of our own.
  void Fail(Failure failure, Code& error) {
    failure_ = std::move(failure);
    error = make_error_code(boost::beast::http::error::bad_field);
  }

  void on_request_impl(boost::beast::http::verb, Text method, Text target,
                       int version, Code& error) override {
    version_ = version;
    request_.method = std::string(View(method));
    if (target.size() > limits_.target_bytes) {
      return Fail({414, absl::StrCat("the path has ", target.size(),
                                     " bytes with its query; at most ",
                                     limits_.target_bytes, " over HTTP")},
                  error);
    }
    if (request_.method == "PRI") {
      return Fail({400, "the request is malformed: HTTP/2 is not spoken here"},
                  error);
    }
    auto parts = ReadTarget(View(target));
    if (!parts.ok()) {
      return Fail({400, std::string(parts.status().message())}, error);
    }
    target_host_ = std::move(parts->host);
    request_.path = std::move(parts->path);
    request_.query = std::move(parts->query);
  }

  void on_response_impl(int, Text, int, Code&) override {}

  void on_field_impl(boost::beast::http::field, Text name, Text value,
                     Code&) override {
    // Headers behind a body in chunks mean nothing here.
    if (is_header_done()) return;
    request_.headers.push_back(
        {std::string(View(name)), std::string(View(value))});
  }

  void on_header_impl(Code& error) override {
    const size_t hosts = request_.Count("Host");
    if (hosts > 1 || (hosts == 0 && !is_http_1_0())) {
      return Fail({400, absl::StrCat("the header Host is there ", hosts,
                                     " times; give it once")},
                  error);
    }
    const absl::string_view host = request_.Header("Host");
    if (hosts == 1 && !target_host_.empty() &&
        !absl::EqualsIgnoreCase(target_host_, host)) {
      return Fail({400, absl::StrCat("the request is for the host '",
                                     target_host_.substr(0, 80),
                                     "', its header Host is '",
                                     host.substr(0, 80), "'; give one host")},
                  error);
    }
    if (request_.Count("Content-Length") > 1 ||
        absl::StrContains(request_.Header("Content-Length"), ',')) {
      return Fail({400, "the header Content-Length is there more than once"},
                  error);
    }
    CheckTransferEncoding(error);
  }

  void CheckTransferEncoding(Code& error) {
    const size_t count = request_.Count("Transfer-Encoding");
    if (count == 0) return;
    if (is_http_1_0() || request_.Count("Content-Length") > 0) {
      return Fail(
          {400, "the header Transfer-Encoding is not for such a request"},
          error);
    }
    const absl::string_view value = request_.Header("Transfer-Encoding");
    if (count == 1 && absl::EqualsIgnoreCase(value, "chunked")) return;
    Fail({501, absl::StrCat("Transfer-Encoding is '", value.substr(0, 80),
                            "'; it must be chunked")},
         error);
  }

  void on_body_init_impl(const boost::optional<uint64_t>&, Code&) override {}

  size_t on_body_impl(Text body, Code& error) override {
    TakeBody(View(body), error);
    return body.size();
  }

  void on_chunk_header_impl(uint64_t size, Text extensions,
                            Code& error) override {
    // The library takes a line end between quotes, where others end the line.
    if (absl::StrContains(View(extensions), '\n')) {
      return Fail({400, "a line end is not for the extension of a chunk"},
                  error);
    }
    if (size > most_body_bytes_ - body_bytes_) FailAtBodyLimit(error);
  }

  size_t on_chunk_body_impl(uint64_t, Text body, Code& error) override {
    TakeBody(View(body), error);
    return body.size();
  }

  void on_finish_impl(Code&) override {}

  void TakeBody(absl::string_view bytes, Code& error) {
    if (bytes.size() > most_body_bytes_ - body_bytes_) {
      return FailAtBodyLimit(error);
    }
    body_bytes_ += bytes.size();
    if (keep_) request_.body.append(bytes.data(), bytes.size());
  }

  void FailAtBodyLimit(Code& error) {
    Fail({413, BodyTooLarge(most_body_bytes_)}, error);
  }

  const Limits limits_;
  size_t header_bytes_ = 0;  // read so far
  int version_ = 0;          // 10 or 11; 0 before the request line is read
  std::string target_host_;  // of a target in the form for proxies
  size_t most_body_bytes_ = 0;
  size_t body_bytes_ = 0;  // read so far; at most the number above
  bool keep_ = false;
  HttpRequest request_;
  std::optional<Failure> failure_;
};

RequestParser::RequestParser(const Limits& limits)
    : impl_(std::make_unique<Impl>(limits)) {}

RequestParser::~RequestParser() = default;

size_t RequestParser::Feed(absl::string_view bytes) {
  return impl_->Feed(bytes);
}

void RequestParser::ReadBody(size_t most, bool keep) {
  impl_->ReadBody(most, keep);
}

HttpRequest& RequestParser::request() { return impl_->request(); }
bool RequestParser::header_done() const { return impl_->is_header_done(); }
bool RequestParser::done() const { return impl_->is_done(); }

const std::optional<RequestParser::Failure>& RequestParser::failure() const {
  return impl_->failure();
}

bool RequestParser::has_body() const { return !impl_->is_done(); }

std::optional<uint64_t> RequestParser::content_length() const {
  const auto length = impl_->content_length();
  return length.has_value() ? std::optional<uint64_t>(*length) : std::nullopt;
}

bool RequestParser::keep_alive() const { return impl_->keep_alive(); }
bool RequestParser::is_http_1_0() const { return impl_->is_http_1_0(); }

std::string BodyTooLarge(size_t most) {
  return absl::StrCat("the body has more than ", most,
                      " bytes, which is the most over HTTP");
}

}  // namespace gpupool::server
