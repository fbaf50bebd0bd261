// A SentencePiece model in a process of its own, gpupool-tokenizer. A model
// that is damaged or hostile can end or block that process, and nothing else.
//
// Thread-safety: one thread, the one that calls Start. The process ends with
// that thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/tokenizer/messages.h"

namespace gpupool::engine {

class TokenizerProcess {
 public:
  // Starts `program`, or if that is empty gpupool-tokenizer beside this
  // program, and loads the bytes of a model file there.
  //   INVALID_ARGUMENT  the file is no model, or exceeds a limit of messages.h
  //   UNAVAILABLE       the program cannot be started; has a remedy
  static absl::StatusOr<std::unique_ptr<TokenizerProcess>> Start(
      std::string program, std::string_view model);
  // Ends the process.
  ~TokenizerProcess();
  TokenizerProcess(const TokenizerProcess&) = delete;
  TokenizerProcess& operator=(const TokenizerProcess&) = delete;

  const TokenizerModel& facts() const { return facts_; }
  // Replaces `ids` by the tokens of the lines, at most kMaxTokenizedText bytes.
  // All are below facts().vocabulary. INVALID_ARGUMENT when the model cannot
  // encode them, ends the process or takes minutes. No call may follow then.
  absl::Status Encode(std::string_view lines, std::vector<uint32_t>& ids);
  // Returns the texts of tokens, at most 1,000. Each is UTF-8; bytes that are
  // not are question marks. Errors as Encode.
  absl::StatusOr<std::vector<std::string>> Names(
      absl::Span<const uint32_t> ids);

 private:
  TokenizerProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {}

  // Sends a request and returns the payload of its answer.
  absl::StatusOr<std::string> Ask(TokenizerMessage request,
                                  std::string_view payload,
                                  TokenizerMessage answer);
  absl::Status Load(std::string_view model);
  // Ends the process and returns its status, as waitpid does. Gives up after
  // seconds if it can neither be killed nor ends by itself.
  int End();
  // Returns why the other side is silent. Ends the process.
  absl::Status Lost(bool too_slow);

  pid_t pid_;
  const int socket_;
  TokenizerModel facts_;
};

}  // namespace gpupool::engine
