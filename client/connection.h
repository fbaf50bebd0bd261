// A gRPC channel and the kinds of calls over it: unary calls with retries,
// reading a stream, writing a stream. Includes gRPC, so only client.cc and
// device_calls.h include it.
//
// Thread-safety: all functions from any thread. Owns the channel.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/request_texts.h"
#include "client/retry.h"

namespace gpupool::client {

class Connection {
 public:
  enum Repeat { kRepeat, kOnce };

  // Repeats and time limit of a call. A Repeat alone converts to one with the
  // client's time limit.
  struct Patience {
    Patience(  // NOLINT(google-explicit-constructor): calls give a Repeat
        Repeat repeat, absl::Duration timeout = absl::ZeroDuration())
        : repeat(repeat), timeout(timeout) {}
    Repeat repeat;
    absl::Duration timeout;  // time limit of each try; 0: the client's
  };

  // Reader of a stream. Borrows the function.
  template <typename Message>
  struct Listener {
    // Returns whether it wants more.
    const std::function<bool(const Message&)>& on_message;
    std::stop_token stop = {};
  };

  Connection(const ClientOptions& options,
             const std::shared_ptr<grpc::ChannelCredentials>& credentials);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Makes one unary call. If `patience` allows, retries it while the server is
  // unavailable and the retry window is open. InvalidArgument, as all functions
  // here, without a call if a text of the request is not UTF-8.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(
      Stub& stub,
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      const Request& request, const Patience& patience) {
    const absl::Status texts = CheckTexts(request);
    if (!texts.ok()) return texts;
    const Limits limits = StartCall(patience);
    Backoff backoff({}, NewSeed());
    while (true) {
      grpc::ClientContext context;
      AddToken(&context);
      context.set_deadline(absl::ToChronoTime(limits.deadline));
      Response response;
      const absl::Status status =
          Explain((stub.*method)(&context, request, &response), limits.timeout);
      if (status.ok()) return response;
      if (!IsRetryable(status)) return status;
      const absl::Duration wait = backoff.Next();
      if (absl::Now() + wait > limits.last_try) return status;
      absl::SleepFor(wait);
    }
  }

  // Reads a stream without a time limit, until it ends (returns its status),
  // the listener wants no more (returns Ok) or its stop is requested (returns
  // Cancelled).
  template <typename Stub, typename Request, typename Message>
  absl::Status ReadStream(Stub& stub,
                          std::unique_ptr<grpc::ClientReader<Message>> (
                              Stub::*method)(grpc::ClientContext*,
                                             const Request&),
                          const Request& request,
                          const Listener<Message>& listener) {
    const absl::Status texts = CheckTexts(request);
    if (!texts.ok()) return texts;
    grpc::ClientContext context;
    AddToken(&context);
    auto reader = (stub.*method)(&context, request);
    std::stop_callback cancel(listener.stop,
                              [&context] { context.TryCancel(); });
    Message message;
    bool satisfied = false;
    while (!satisfied && reader->Read(&message)) {
      satisfied = !listener.on_message(message);
    }
    if (satisfied) context.TryCancel();
    const grpc::Status status = reader->Finish();
    if (satisfied) return absl::OkStatus();
    if (listener.stop.stop_requested()) {
      return absl::CancelledError("stopped");
    }
    return Explain(status, absl::InfiniteDuration());
  }

  // Writes the messages that `next` fills until it returns false, then waits
  // for the answer. If the server refuses early, writing ends and the server's
  // status is returned. Cancelled when `stop` is requested, also while the
  // server takes nothing.
  template <typename Response, typename Stub, typename Message>
  absl::StatusOr<Response> WriteStream(
      Stub& stub,
      std::unique_ptr<grpc::ClientWriter<Message>> (Stub::*method)(
          grpc::ClientContext*, Response*),
      const std::function<absl::StatusOr<bool>(Message&)>& next,
      const std::stop_token& stop) {
    grpc::ClientContext context;
    AddToken(&context);
    Response response;
    auto writer = (stub.*method)(&context, &response);
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    while (true) {
      Message message;
      const absl::StatusOr<bool> more = next(message);
      const absl::Status good = more.ok() ? CheckTexts(message) : more.status();
      if (!good.ok()) {
        context.TryCancel();
        writer->Finish();
        return good;
      }
      if (!*more || !writer->Write(message)) break;
    }
    writer->WritesDone();
    const absl::Status status =
        Explain(writer->Finish(), absl::InfiniteDuration());
    if (status.ok()) return response;
    if (!stop.stop_requested()) return status;
    return absl::CancelledError(
        "the upload was interrupted; the same command goes on with it");
  }

 private:
  struct Limits {
    absl::Duration timeout;
    absl::Time deadline;
    absl::Time last_try;
  };

  // Adds the client's token, if it has one, to a call that has not started.
  void AddToken(grpc::ClientContext* context) const;
  Limits StartCall(const Patience& patience) const;
  // Returns the same code. If the connection failed and not the server, the
  // text says what could not be reached, why, and what to do.
  absl::Status Explain(const grpc::Status& status, absl::Duration timeout);
  static uint32_t NewSeed();

  const std::string address_;
  const TlsOptions tls_;
  const std::string authorization_;  // value of the header; empty: none
  const absl::Duration call_timeout_;
  const absl::Duration retry_window_;
  const std::shared_ptr<grpc::Channel> channel_;
};

// Returns the time limit of a call that may wait for its effect.
inline absl::Duration TimeLimit(const ClientOptions& options, bool wait) {
  return wait ? std::max(options.call_timeout, options.wait_timeout)
              : options.call_timeout;
}

}  // namespace gpupool::client
