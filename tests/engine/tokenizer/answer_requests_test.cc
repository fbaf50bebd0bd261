#include "engine/tokenizer/answer_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "tests/engine/tokenizer/story.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// Asks the loop, which runs in a thread.
class AnswerRequestsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends;
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    socket_ = ends[0];
    loop_ = std::thread([this, end = ends[1]] {
      code_ = AnswerRequests(end);
      ::close(end);
    });
  }
  void TearDown() override { End(); }

  // Closes the socket and returns the exit code.
  int End() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
    if (loop_.joinable()) loop_.join();
    return code_;
  }
  void Send(TokenizerMessage kind, const std::string& payload) {
    const TokenizerHeader header = {kind,
                                    static_cast<uint32_t>(payload.size())};
    ::send(socket_, &header, sizeof(header), MSG_NOSIGNAL);
    for (size_t done = 0; done < payload.size();) {
      const ssize_t count = ::send(socket_, payload.data() + done,
                                   payload.size() - done, MSG_NOSIGNAL);
      if (count <= 0) return;
      done += static_cast<size_t>(count);
    }
  }
  // Returns the payload of the answer, and checks its kind.
  std::string Receive(TokenizerMessage kind) {
    TokenizerHeader header;
    EXPECT_EQ(::recv(socket_, &header, sizeof(header), MSG_WAITALL),
              static_cast<ssize_t>(sizeof(header)));
    EXPECT_EQ(header.kind, kind);
    std::string payload(header.bytes, '\0');
    if (!payload.empty()) {
      ::recv(socket_, payload.data(), payload.size(), MSG_WAITALL);
    }
    return payload;
  }
  std::string Ask(TokenizerMessage request, const std::string& payload,
                  TokenizerMessage answer) {
    Send(request, payload);
    return Receive(answer);
  }

  int socket_ = -1;
  int code_ = -1;
  std::thread loop_;
};

TEST_F(AnswerRequestsTest, AModelEncodesLinesAndNamesItsPieces) {
  const std::string loaded =
      Ask(TokenizerMessage::kLoad, StoryModel(), TokenizerMessage::kModel);
  TokenizerModel facts;
  ASSERT_EQ(loaded.size(), sizeof(facts));
  std::memcpy(&facts, loaded.data(), sizeof(facts));
  EXPECT_EQ(facts.vocabulary, 280u);
  const std::string ids =
      Ask(TokenizerMessage::kEncode, "the\n", TokenizerMessage::kIds);
  ASSERT_EQ(ids.size(), 2 * sizeof(uint32_t));
  EXPECT_EQ(Ask(TokenizerMessage::kNames, ids, TokenizerMessage::kNamed),
            std::string("▁the\0</s>\0", 12));
  EXPECT_EQ(Ask(TokenizerMessage::kEncode, "", TokenizerMessage::kIds), "");
  EXPECT_EQ(End(), 0);
}

TEST_F(AnswerRequestsTest, AFileThatIsNoModelEndsTheLoop) {
  EXPECT_THAT(Ask(TokenizerMessage::kLoad, "none", TokenizerMessage::kError),
              HasSubstr("is no SentencePiece model"));
  EXPECT_EQ(End(), 1);
}

TEST_F(AnswerRequestsTest, RequestsHaveAnOrderAndALimit) {
  EXPECT_THAT(Ask(TokenizerMessage::kEncode, "a", TokenizerMessage::kError),
              HasSubstr("wrong order"));
  EXPECT_EQ(End(), 1);
}

TEST_F(AnswerRequestsTest, TooLongARequestIsNotRead) {
  const TokenizerHeader header = {
      TokenizerMessage::kLoad, static_cast<uint32_t>(kMaxTokenizerBytes + 1)};
  ::send(socket_, &header, sizeof(header), MSG_NOSIGNAL);
  EXPECT_THAT(Receive(TokenizerMessage::kError), HasSubstr("too long"));
  EXPECT_EQ(End(), 1);
}

TEST_F(AnswerRequestsTest, PiecesBeyondTheVocabularyHaveNoName) {
  Ask(TokenizerMessage::kLoad, StoryModel(), TokenizerMessage::kModel);
  EXPECT_THAT(Ask(TokenizerMessage::kNames, std::string(4, '\xFF'),
                  TokenizerMessage::kError),
              HasSubstr("no such piece"));
  EXPECT_EQ(End(), 1);
}

TEST_F(AnswerRequestsTest, ARequestThatBreaksOffIsAnEnd) {
  const TokenizerHeader header = {TokenizerMessage::kLoad, 100};
  ::send(socket_, &header, sizeof(header), MSG_NOSIGNAL);
  EXPECT_EQ(End(), 0);
}

TEST(EndWithOtherSideTest, TheProcessEndsWithTheSocketWhileItWorks) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer wants no thread after a fork";
#endif
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
            0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    if (!EndWithOtherSide(ends[1])) ::_exit(2);
    // It reads nothing, as if it worked.
    const char ready = 1;
    ::send(ends[1], &ready, 1, MSG_NOSIGNAL);
    while (true) ::pause();
  }
  ::close(ends[1]);
  char ready = 0;
  EXPECT_EQ(::recv(ends[0], &ready, 1, 0), 1);
  // A request that nobody reads does not hide the end.
  EXPECT_EQ(::send(ends[0], &ready, 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
  ::shutdown(ends[0], SHUT_RDWR);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  ::close(ends[0]);
}

}  // namespace
}  // namespace gpupool::engine
