// A client of the HTTP port that sends any bytes, and reads what comes.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "tests/wait_until.h"

namespace gpupool::server {

struct RawAnswer {
  int status = 0;  // 0: none came
  std::string head;
  std::string body;
};

class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience = absl::ToTimeval(kPatience);
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (port != 0) Connect(port);
  }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        unread_(std::move(other.unread_)) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { Close(); }

  // Connects a client that was made with port 0.
  void Connect(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address),
                        sizeof(address)),
              0);
  }

  void Close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  // Closes with a reset, which tells that nobody waits for an answer.
  void Reset() {
    const linger now = {1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }

  // Sends all of the text. Returns false when the server takes no more.
  bool Send(absl::string_view text) {
    while (!text.empty()) {
      const ssize_t sent =
          ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  void EndSending() { ::shutdown(socket_, SHUT_WR); }

  // Returns what comes next; empty at the end of the connection.
  std::string Receive() {
    if (!unread_.empty()) return std::exchange(unread_, {});
    char buffer[16384];
    const ssize_t size = ::recv(socket_, buffer, sizeof(buffer), 0);
    return std::string(buffer, size > 0 ? static_cast<size_t>(size) : 0);
  }

  // Returns all that comes until the server closes the connection.
  std::string ReceiveAll() {
    std::string all;
    for (std::string more = Receive(); !more.empty(); more = Receive()) {
      all += more;
    }
    return all;
  }

  // Receives a little at a time until the server closes the connection. Returns
  // the bytes.
  size_t ReceiveSlowly() {
    size_t taken = 0;
    for (size_t more = Receive().size(); more > 0; more = Receive().size()) {
      taken += more;
      LetTimePass(absl::Milliseconds(2));
    }
    return taken;
  }

  // Returns the next answer, whose head tells the length of its body.
  RawAnswer ReceiveAnswer() {
    RawAnswer answer;
    std::string text;
    while (!absl::StrContains(text, "\r\n\r\n")) {
      const std::string more = Receive();
      if (more.empty()) return answer;
      text += more;
    }
    const size_t end = text.find("\r\n\r\n") + 4;
    answer.head = text.substr(0, end);
    if (answer.head.size() > 12) {
      (void)absl::SimpleAtoi(answer.head.substr(9, 3), &answer.status);
    }
    const size_t length = LengthIn(answer.head);
    while (text.size() < end + length) {
      const std::string more = Receive();
      if (more.empty()) break;
      text += more;
    }
    answer.body = text.substr(end, length);
    if (text.size() > end + length) unread_ = text.substr(end + length);
    return answer;
  }

 private:
  static size_t LengthIn(const std::string& head) {
    constexpr absl::string_view kName = "Content-Length: ";
    const size_t at = head.find(kName.data());
    if (at == head.npos) return 0;
    size_t length = 0;
    const size_t begin = at + kName.size();
    (void)absl::SimpleAtoi(head.substr(begin, head.find('\r', begin) - begin),
                           &length);
    return length;
  }

  int socket_;
  std::string unread_;
};

}  // namespace gpupool::server
