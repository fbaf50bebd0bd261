#include "server/http/port/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "server/http/port/admission.h"
#include "server/http/port/body_pipe.h"
#include "server/http/port/client_presence.h"
#include "server/http/port/client_stream.h"
#include "server/http/port/client_watch.h"
#include "server/http/port/request_parser.h"
#include "server/http/port/response_head.h"

namespace gpupool::server {
namespace {

namespace asio = boost::asio;
using Code = ClientStream::Code;
using Clock = std::chrono::steady_clock;

constexpr RequestParser::Limits kRequestLimits = {.header_bytes = 16 << 10,
                                                  .target_bytes = 8 << 10};
// Bytes that are read at a time. An idle connection has the smaller buffer.
constexpr size_t kIdleBuffer = 4 << 10;
constexpr size_t kHeaderBuffer = 17 << 10;  // more than the headers may have
constexpr size_t kBodyBuffer = 64 << 10;
// A body up to this size goes out with the headers, as one text.
constexpr size_t kJoinedBody = 4 << 10;
// A body of an answer up to this size takes no place of the owner's.
constexpr size_t kFreeAnswer = 64 << 10;
// The body of a refused request is read to its end up to this size, so that the
// connection can stay. Otherwise the connection closes, since the body could be
// taken for another request.
constexpr uint64_t kMostRefusedBody = 64 << 10;

class StreamConnection final
    : public HttpConnection,
      public std::enable_shared_from_this<StreamConnection> {
 public:
  StreamConnection(std::unique_ptr<ClientStream> stream,
                   const ConnectionNeeds& needs, const ClientAddress& client)
      : stream_(std::move(stream)),
        watch_(stream_.get()),
        io_(*needs.io),
        owner_(*needs.owner),
        client_(client) {}

  void Start() override {
    if (!stream_->has_tls()) return BeginRequest();
    SetState(State::kHandshake, owner_.deadlines().handshake);
    if (owner_.MayBeginHandshake(this)) BeginHandshake();
  }

  void BeginHandshake() override {
    stream_->Handshake([self = Self()](Code error) {
      if (self->IsClosed()) return;
      if (error) return self->Close();
      self->owner_.HandshakeEnded(self.get());
      self->BeginRequest();
    });
  }

  void Close() override {
    if (IsClosed()) return;
    SetIdle(false);
    state_ = State::kClosed;
    stream_->Close();
    watch_.End();
    // The pipe shares this connection, and the other way round.
    if (pipe_ != nullptr) std::exchange(pipe_, nullptr)->Close();
    owner_.Ended(this);
  }

  void EndIfLate(SteadyTime now) override {
    // The thread that writes the stream ends only when its text is taken.
    if (state_ == State::kStreaming && owner_.stopping()) LimitFinish();
    if (now < deadline_ || IsClosed()) return;
    const bool reads = state_ == State::kHeaders || state_ == State::kBody;
    if (!reads || late_) return Close();
    // The read that is under way ends with an error and answers.
    late_ = true;
    SetDeadline(owner_.deadlines().write_pause);
    stream_->Cancel();
  }

  void Finish() override {
    switch (state_) {
      case State::kWriting:
      case State::kStreaming:
        return LimitFinish();
      case State::kLingering:
        return LimitFinish(5);
      default:
        return Close();
    }
  }

 private:
  enum class State {
    kHandshake,
    kIdle,
    kHeaders,
    kBody,
    kAnswering,
    kWriting,
    kStreaming,
    kLingering,
    kClosed,
  };

  std::shared_ptr<StreamConnection> Self() { return shared_from_this(); }
  bool IsClosed() const { return state_ == State::kClosed; }

  static SteadyTime In(absl::Duration time) {
    return Clock::now() + absl::ToChronoNanoseconds(time);
  }

  void SetDeadline(absl::Duration time) {
    deadline_ = std::min(In(time), finish_end_);
  }

  // Ends the connection after this share of HttpDeadlines::finish, whatever the
  // client takes until then. Never moves an earlier end.
  void LimitFinish(int share = 1) {
    finish_end_ = std::min(finish_end_, In(owner_.deadlines().finish / share));
    deadline_ = std::min(deadline_, finish_end_);
  }

  void SetState(State state, absl::Duration time) {
    state_ = state;
    SetDeadline(time);
  }

  void SetIdle(bool idle) {
    if (idle_ == idle) return;
    idle_ = idle;
    owner_.SetIdle(this, idle);
  }

  // Waits for the next request, some bytes of which may be here already.
  void BeginRequest() {
    parser_.emplace(kRequestLimits);
    route_ = nullptr;
    refusal_.reset();
    late_ = false;
    body_is_read_ = false;
    if (!HasRequest()) {
      MoveUnreadToFront();
      buffer_.resize(kIdleBuffer);
      buffer_.shrink_to_fit();
      SetState(State::kIdle, owner_.deadlines().idle);
      SetIdle(true);
      return Read(kIdleBuffer);
    }
    BeginHeaders();
    Parse();
  }

  void BeginHeaders() {
    SetIdle(false);
    SetState(State::kHeaders, owner_.deadlines().headers);
    request_end_ = In(owner_.deadlines().request);
  }

  absl::string_view Unread() const {
    return absl::string_view(buffer_).substr(begin_, end_ - begin_);
  }

  // Drops empty lines before a request, which some clients send after a body
  // (RFC 9112, 2.2). Returns whether a byte of the request is here.
  bool HasRequest() {
    while (absl::StartsWith(Unread(), "\r\n")) begin_ += 2;
    return !Unread().empty() && Unread() != "\r";
  }

  void MoveUnreadToFront() {
    if (begin_ == 0) return;
    std::copy(buffer_.begin() + begin_, buffer_.begin() + end_,
              buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
  }

  // Reads on, into a buffer of this size.
  void Read(size_t buffer_bytes) {
    MoveUnreadToFront();
    if (buffer_.size() < buffer_bytes) buffer_.resize(buffer_bytes);
    stream_->Read(asio::buffer(&buffer_[end_], buffer_.size() - end_),
                  [self = Self()](Code error, size_t bytes) {
                    self->OnRead(error, bytes);
                  });
  }

  void OnRead(Code error, size_t bytes) {
    if (IsClosed()) return;
    if (late_) return FailLate();
    const bool begun = state_ == State::kHeaders || state_ == State::kBody;
    if (error == asio::error::eof && begun) {
      return Fail(400, "the request ends early");
    }
    if (error) return Close();
    end_ += bytes;
    if (state_ == State::kIdle) {
      if (!HasRequest()) return Read(kIdleBuffer);
      BeginHeaders();
    }
    if (state_ == State::kBody) SetBodyDeadline();
    Parse();
  }

  void SetBodyDeadline() {
    SetDeadline(owner_.deadlines().body_pause);
    deadline_ = std::min(deadline_, request_end_);
  }

  void FailLate() {
    keep_alive_ = false;
    Respond(Errors()(TooLate(owner_.deadlines()), 408));
  }

  const ErrorWriter& Errors() const {
    return route_ != nullptr ? route_->error : owner_.router().other().error;
  }

  void Parse() {
    while (true) {
      if (!GrowPlace(Unread().size(), false)) return;
      begin_ += parser_->Feed(Unread());
      if (parser_->failure().has_value()) return FailParse();
      if (state_ == State::kHeaders && parser_->header_done()) {
        if (!OnHeaders()) return;
        if (!parser_->done() && !Unread().empty()) continue;
      }
      if (parser_->done()) return OnRequest();
      if (end_ - begin_ < kHeaderBuffer) break;
      // The line before a chunk, or the headers behind the last one.
      return Fail(400, "a line of the body is too long");
    }
    Read(state_ == State::kBody ? kBodyBuffer : kHeaderBuffer);
  }

  void FailParse() {
    Fail(parser_->failure()->status, parser_->failure()->text);
  }

  // Answers what cannot be read on.
  void Fail(int status, const std::string& text) {
    keep_alive_ = false;
    const absl::Status error = status == 413
                                   ? absl::ResourceExhaustedError(text)
                                   : absl::InvalidArgumentError(text);
    Respond(Errors()(error, status));
  }

  // Chooses the route. Returns false if the request is answered, or read on
  // later.
  bool OnHeaders() {
    HttpRequest& request = parser_->request();
    request.remote = client_.text;
    request.user = client_.user;
    keep_alive_ = parser_->keep_alive();
    HttpRouter::Match match =
        owner_.router().Find(request.method, request.path);
    route_ = match.route;
    request.parts = std::move(match.parts);
    other_method_ = match.other_method;
    allow_ = std::move(match.allow);
    const auto length = parser_->content_length();
    Admission admission = AdmitRequest(
        *route_, request, {.there = parser_->has_body(), .length = length});
    refusal_ = std::move(admission.refusal);
    place_ = std::move(admission.place);
    if (!parser_->has_body()) return true;
    if (refusal_.has_value() &&
        (!length.has_value() || *length > kMostRefusedBody ||
         Expects(request))) {
      keep_alive_ = false;
      Respond(*std::exchange(refusal_, std::nullopt));
      return false;
    }
    state_ = State::kBody;
    SetBodyDeadline();
    if (refusal_.has_value()) {
      parser_->ReadBody(kMostRefusedBody, false);
      return true;
    }
    parser_->ReadBody(route_->most_body_bytes, route_->bodies != nullptr);
    if (!Expects(request)) return true;
    SendContinue();
    return false;
  }

  bool Expects(const HttpRequest& request) const {
    return !parser_->is_http_1_0() && request.Count("Expect") > 0;
  }

  void SendContinue() {
    static constexpr absl::string_view kContinue =
        "HTTP/1.1 100 Continue\r\n\r\n";
    stream_->WriteAll(asio::buffer(kContinue.data(), kContinue.size()),
                      [self = Self()](Code error, size_t) {
                        if (self->IsClosed()) return;
                        if (self->late_) return self->FailLate();
                        if (error) return self->Close();
                        self->Parse();
                      });
  }

  // Makes the place of the body large enough for so many more bytes. Returns
  // false, and answers, if they do not fit beside those of others.
  bool GrowPlace(size_t more, bool whole) {
    if (!place_.has_value()) return true;
    const HttpRequest& request = parser_->request();
    const uint64_t bytes =
        PlaceFor(*route_, request, request.body.size() + more, whole);
    if (place_->GrowTo(bytes)) return true;
    keep_alive_ = keep_alive_ && whole;
    Respond(NoPlace(*route_));
    return false;
  }

  // Answers a request that is whole.
  void OnRequest() {
    body_is_read_ = true;
    if (!GrowPlace(0, true)) return;
    if (refusal_.has_value()) {
      return Respond(*std::exchange(refusal_, std::nullopt));
    }
    if (other_method_ != nullptr) {
      return Respond(
          WrongMethod(other_method_->error, parser_->request(), allow_));
    }
    state_ = State::kAnswering;
    if (route_->lane == Lane::kHere) return Respond(Answer());
    WatchForLoss();
    parser_->request().client = presence_;
    if (owner_.Run(route_->lane, [self = Self()] { self->AnswerThere(); })) {
      // Last, so that the connection ends when memory runs out before.
      deadline_ = SteadyTime::max();
      return;
    }
    place_.reset();
    Respond(NoThread(*route_, owner_.stopping()));
  }

  // Notices while an answer is made that the connection is reset. The watch
  // goes on with the next request.
  void WatchForLoss() {
    if (presence_ == nullptr) presence_ = std::make_shared<ClientPresence>();
    if (std::exchange(watching_loss_, true)) return;
    stream_->AwaitTrouble([self = Self()](Code) {
      self->watching_loss_ = false;
      if (self->state_ == State::kAnswering && self->stream_->IsBroken()) {
        self->presence_->Lose();
        self->Close();
      }
    });
  }

  // Asks the route. The bytes of the body are free afterwards.
  HttpResponse Answer() {
    HttpResponse response;
    try {
      response = route_->answer(parser_->request());
    } catch (const std::exception& error) {
      // Memory ran out, say.
      response = route_->error(absl::InternalError(error.what()), 0);
    }
    parser_->request().body = std::string();
    place_.reset();
    return response;
  }

  // Runs on a thread of the route's lane. The port's thread touches neither the
  // request nor its place meanwhile.
  void AnswerThere() {
    auto response = std::make_shared<HttpResponse>(Answer());
    if (response->stream == nullptr) {
      asio::post(io_, [self = Self(), response] {
        self->Respond(std::move(*response));
      });
      return;
    }
    const auto write = std::exchange(response->stream, nullptr);
    const auto pipe = std::make_shared<BodyPipe>([self = Self()] {
      asio::post(self->io_, [self] { self->SendPiece(); });
    });
    asio::post(io_, [self = Self(), response, pipe] {
      self->BeginStream(*response, pipe);
    });
    try {
      write(*pipe);
      pipe->Finish();
    } catch (const std::exception&) {
      // The client sees that the body is not whole.
      asio::post(io_, [self = Self()] { self->Close(); });
    }
  }

  void Respond(HttpResponse response) {
    if (IsClosed()) return;
    // The client may take long, and the place is for others then.
    parser_->request().body = std::string();
    place_.reset();
    if (response.body.size() > kFreeAnswer) {
      BodyBudget& answers = owner_.answers();
      place_ = answers.Take(std::min(response.body.size(), answers.most()));
      if (!place_.has_value()) response = NoRoom(Errors(), answers.most());
    }
    if (owner_.stopping()) keep_alive_ = false;
    ResponseFrame frame{.keep_alive = keep_alive_};
    if (response.status != 304) frame.content_length = response.body.size();
    out_head_ = ResponseHead(response, frame);
    out_body_ = std::move(response.body);
    if (parser_->request().method == "HEAD") out_body_.clear();
    if (out_body_.size() <= kJoinedBody) {
      out_head_ += out_body_;
      out_body_.clear();
    }
    state_ = State::kWriting;
    BeginWriting();
  }

  // Writes what is to go out, all of which the client has to take in a time
  // that depends on its size.
  void BeginWriting() {
    written_ = 0;
    const double bytes =
        static_cast<double>(out_head_.size() + out_body_.size());
    write_end_ = In(owner_.deadlines().write_pause +
                    absl::Seconds(bytes / owner_.deadlines().least_rate));
    Write();
  }

  // Writes on. Each piece that the client takes begins the pause anew.
  void Write() {
    SetDeadline(owner_.deadlines().write_pause);
    deadline_ = std::min(deadline_, write_end_);
    const size_t head = std::min(written_, out_head_.size());
    const size_t body = written_ - head;
    stream_->Write(asio::buffer(out_head_) + head,
                   asio::buffer(out_body_) + body,
                   [self = Self()](Code error, size_t bytes) {
                     self->OnWritten(error, bytes);
                   });
  }

  void OnWritten(Code error, size_t bytes) {
    if (IsClosed()) return;
    if (error) return Close();
    written_ += bytes;
    if (written_ < out_head_.size() + out_body_.size()) return Write();
    out_head_.clear();
    out_body_ = std::string();
    place_.reset();
    if (state_ == State::kStreaming) {
      writing_ = false;
      return SendPiece();
    }
    if (keep_alive_ && body_is_read_ && !owner_.stopping()) {
      return BeginRequest();
    }
    Linger();
  }

  // Sends the head of a stream. What the writer has for it comes by SendPiece.
  void BeginStream(const HttpResponse& response,
                   std::shared_ptr<BodyPipe> pipe) {
    if (IsClosed()) return pipe->Close();
    pipe_ = std::move(pipe);
    chunked_ = !parser_->is_http_1_0();
    out_head_ = ResponseHead(response, {.chunked = chunked_});
    state_ = State::kStreaming;
    writing_ = true;
    begin_ = end_ = 0;
    watch_.WatchDuringStream(Self());
    BeginWriting();
  }

  void SendPiece() {
    if (IsClosed() || writing_ || pipe_ == nullptr) return;
    const BodyPipe::Taken taken = pipe_->Take();
    if (!taken.text.empty()) {
      out_head_ = chunked_ ? ChunkOf(taken.text) : taken.text;
    }
    if (taken.finished && chunked_) out_head_.append(kLastChunk.data());
    if (taken.finished) {
      // The rest is written as the end of an answer.
      pipe_.reset();
      keep_alive_ = false;
      state_ = State::kWriting;
    }
    if (out_head_.empty()) {
      deadline_ = finish_end_;
      if (taken.finished) Linger();
      return;
    }
    writing_ = true;
    BeginWriting();
  }

  // Lets the client read what was sent before the connection closes.
  void Linger() {
    SetState(State::kLingering, owner_.deadlines().linger);
    SetIdle(true);
    buffer_ = std::string();
    begin_ = end_ = 0;
    watch_.Linger(Self());
  }

  const std::unique_ptr<ClientStream> stream_;
  ClientWatch watch_;
  asio::io_context& io_;
  ConnectionOwner& owner_;
  const ClientAddress client_;
  State state_ = State::kIdle;
  SteadyTime deadline_ = SteadyTime::max();
  SteadyTime request_end_ = SteadyTime::max();
  SteadyTime write_end_ = SteadyTime::max();
  SteadyTime finish_end_ = SteadyTime::max();  // set when the port stops
  bool idle_ = false;                          // as the owner knows it
  bool late_ = false;                          // the request took too long

  // Unread bytes are buffer_[begin_, end_).
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;

  // The request.
  std::optional<RequestParser> parser_;
  const HttpRoute* route_ = nullptr;         // null before its headers are read
  const HttpRoute* other_method_ = nullptr;  // not null: it gets a 405
  std::string allow_;                        // methods of its path, for the 405
  std::optional<HttpResponse> refusal_;      // goes out when the body is read
  std::optional<BodyBudget::Place> place_;   // of its body, then of the answer
  bool body_is_read_ = false;
  bool keep_alive_ = false;
  std::shared_ptr<ClientPresence> presence_;  // null before it is needed
  bool watching_loss_ = false;                // WatchForLoss waits

  // The answer, or a piece of a stream.
  std::string out_head_;
  std::string out_body_;
  size_t written_ = 0;              // of both
  std::shared_ptr<BodyPipe> pipe_;  // of a stream
  bool chunked_ = false;
  bool writing_ = false;  // of a stream
};

}  // namespace

std::shared_ptr<HttpConnection> MakeConnection(const ConnectionNeeds& needs,
                                               int socket, bool ip6,
                                               const ClientAddress& client) {
  auto stream = MakeClientStream(*needs.io, needs.tls, socket, ip6);
  if (stream == nullptr) return nullptr;
  return std::make_shared<StreamConnection>(std::move(stream), needs, client);
}

}  // namespace gpupool::server
