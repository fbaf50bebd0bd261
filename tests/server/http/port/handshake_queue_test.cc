#include "server/http/port/handshake_queue.h"

#include <array>
#include <string>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

class HandshakeQueueTest : public ::testing::Test {
 protected:
  // Returns the name of a connection, which nobody looks into.
  HttpConnection* At(size_t i) {
    return reinterpret_cast<HttpConnection*>(&names_[i]);
  }
  static ClientAddress Client(const std::string& text) { return {text, text}; }

  // 4 in total, one of which only this machine may have.
  HandshakeQueue queue_{{.total = 4, .by_client = 2}};
  const ClientAddress here_ = {"127.0.0.1", "127.0.0.1", true};

 private:
  std::array<int, 10> names_ = {};
};

TEST_F(HandshakeQueueTest, AClientBeyondItsLimitWaitsForItsOwn) {
  EXPECT_TRUE(queue_.Begin(At(0), Client("a")));
  EXPECT_TRUE(queue_.Begin(At(1), Client("a")));
  EXPECT_FALSE(queue_.Begin(At(2), Client("a")));
  EXPECT_FALSE(queue_.Begin(At(3), Client("a")));
  EXPECT_TRUE(queue_.Begin(At(4), Client("b")));
  EXPECT_EQ(queue_.End(At(4)), nullptr);
  EXPECT_EQ(queue_.End(At(1)), At(2));
  EXPECT_EQ(queue_.End(At(2)), At(3));
  EXPECT_EQ(queue_.End(At(3)), nullptr);
  EXPECT_EQ(queue_.End(At(3)), nullptr) << "has ended already";
}

TEST_F(HandshakeQueueTest, TheTotalHasALimitAndKeepsAPlaceForThisMachine) {
  EXPECT_TRUE(queue_.Begin(At(0), Client("a")));
  EXPECT_TRUE(queue_.Begin(At(1), Client("b")));
  EXPECT_TRUE(queue_.Begin(At(2), Client("c")));
  EXPECT_FALSE(queue_.Begin(At(3), Client("d")));
  EXPECT_TRUE(queue_.Begin(At(4), here_));
  EXPECT_FALSE(queue_.Begin(At(5), here_));
  EXPECT_EQ(queue_.End(At(4)), At(5));
  EXPECT_EQ(queue_.End(At(5)), nullptr) << "the place is kept";
  EXPECT_EQ(queue_.End(At(0)), At(3));
}

TEST_F(HandshakeQueueTest, AConnectionThatEndsWaitsNoMore) {
  EXPECT_TRUE(queue_.Begin(At(0), Client("a")));
  EXPECT_TRUE(queue_.Begin(At(1), Client("a")));
  EXPECT_FALSE(queue_.Begin(At(2), Client("a")));
  EXPECT_FALSE(queue_.Begin(At(3), Client("a")));
  EXPECT_EQ(queue_.End(At(2)), nullptr);
  EXPECT_EQ(queue_.End(At(0)), At(3));
  EXPECT_EQ(queue_.End(At(1)), nullptr);
}

TEST_F(HandshakeQueueTest, ThisMachineHasNoLimitOfItsOwn) {
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(queue_.Begin(At(i), here_));
}

}  // namespace
}  // namespace gpupool::server
