#include "engine/tokenizer/answer_requests.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/tokenizer/messages.h"
#include "engine/tokenizer/sentencepiece_model.h"

namespace gpupool::engine {
namespace {

bool ReadAll(int socket, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t count = ::recv(socket, to, bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    to += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool WriteAll(int socket, const char* from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t count = ::send(socket, from, bytes, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    from += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool Answer(int socket, TokenizerMessage kind, std::string_view payload) {
  const TokenizerHeader header = {kind, static_cast<uint32_t>(payload.size())};
  return WriteAll(socket, reinterpret_cast<const char*>(&header),
                  sizeof(header)) &&
         WriteAll(socket, payload.data(), payload.size());
}

std::vector<uint32_t> IdsOf(std::string_view payload) {
  std::vector<uint32_t> ids(payload.size() / sizeof(uint32_t));
  if (ids.empty()) return ids;
  std::memcpy(ids.data(), payload.data(), ids.size() * sizeof(uint32_t));
  return ids;
}

// Answers one request. Returns false at the end and after an error.
class Answers {
 public:
  explicit Answers(int socket) : socket_(socket) {}

  bool failed() const { return failed_; }

  bool Next() {
    TokenizerHeader header;
    if (!ReadAll(socket_, reinterpret_cast<char*>(&header), sizeof(header))) {
      return false;
    }
    if (header.bytes > kMaxTokenizerBytes) {
      return Fail("has too long a request");
    }
    request_.resize(header.bytes);
    if (!ReadAll(socket_, request_.data(), request_.size())) return false;
    if ((header.kind == TokenizerMessage::kLoad) == loaded_) {
      return Fail("has requests in a wrong order");
    }
    switch (header.kind) {
      case TokenizerMessage::kLoad:
        return Load();
      case TokenizerMessage::kEncode:
        return Encode();
      case TokenizerMessage::kNames:
        return Name();
      default:
        return Fail("has an unknown request");
    }
  }

 private:
  bool Fail(const std::string& text) {
    failed_ = true;
    Answer(socket_, TokenizerMessage::kError, text);
    return false;
  }

  bool Load() {
    const std::string error = model_.Load(request_);
    if (!error.empty()) return Fail(error);
    loaded_ = true;
    const TokenizerModel& facts = model_.facts();
    return Answer(socket_, TokenizerMessage::kModel,
                  {reinterpret_cast<const char*>(&facts), sizeof(facts)});
  }

  bool Encode() {
    ids_.clear();
    const std::string error = model_.Encode(request_, &ids_);
    if (!error.empty()) return Fail(error);
    return Answer(socket_, TokenizerMessage::kIds,
                  {reinterpret_cast<const char*>(ids_.data()),
                   ids_.size() * sizeof(uint32_t)});
  }

  bool Name() {
    std::string names;
    for (const uint32_t id : IdsOf(request_)) {
      if (id >= model_.facts().vocabulary) return Fail("has no such piece");
      names += model_.PieceName(id);
      names += '\0';
    }
    return Answer(socket_, TokenizerMessage::kNamed, names);
  }

  const int socket_;
  SentencePieceModel model_;
  bool loaded_ = false;
  bool failed_ = false;
  std::string request_;
  std::vector<uint32_t> ids_;
};

}  // namespace

int AnswerRequests(int socket) {
  Answers answers(socket);
  while (answers.Next()) {
  }
  return answers.failed() ? 1 : 0;
}

bool EndWithOtherSide(int socket) {
  const auto wait = [socket] {
    pollfd watched = {socket, POLLRDHUP, 0};
    while (::poll(&watched, 1, -1) <= 0) {
    }
    ::_exit(1);
  };
  try {
    std::thread(wait).detach();
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

}  // namespace gpupool::engine
