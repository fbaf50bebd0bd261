#include "server/ipc/control_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>

#include "gpupool/worker/v1/worker.pb.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using worker::v1::FromWorker;
using worker::v1::ToWorker;

class ControlChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    raw_ = UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3));
    left_.emplace(*ControlChannel::FromSocket(UniqueFd(ends[0])));
    right_.emplace(*ControlChannel::FromSocket(UniqueFd(ends[1])));
  }
  void WriteRaw(const std::string& bytes) {
    ASSERT_EQ(::send(raw_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  absl::StatusCode ReceiveCode() {
    ToWorker message;
    return right_->Receive(&message).status().code();
  }

  UniqueFd raw_;  // the left socket, without a channel around it
  std::optional<ControlChannel> left_;
  std::optional<ControlChannel> right_;
};

std::string Frame(uint32_t length, const std::string& body) {
  std::string frame(4, '\0');
  std::memcpy(frame.data(), &length, 4);
  return frame + body;
}

ToWorker Request(uint64_t id) {
  ToWorker message;
  message.set_request_id(id);
  message.mutable_get_memory()->set_with_summary(true);
  return message;
}

TEST_F(ControlChannelTest, MessagesArriveWholeAndInOrder) {
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(left_->Send(Request(id)).ok());
  }
  ToWorker message;
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(*right_->Receive(&message));
    EXPECT_EQ(message.request_id(), id);
  }
  EXPECT_FALSE(*right_->Receive(&message));
}

TEST_F(ControlChannelTest, FrameMayArriveByteByByte) {
  std::string body;
  Request(42).SerializeToString(&body);
  const std::string frame = Frame(static_cast<uint32_t>(body.size()), body);
  ToWorker message;
  for (size_t i = 0; i < frame.size(); ++i) {
    EXPECT_FALSE(*right_->Receive(&message));
    WriteRaw(frame.substr(i, 1));
  }
  ASSERT_TRUE(*right_->Receive(&message));
  EXPECT_EQ(message.request_id(), 42u);
}

TEST_F(ControlChannelTest, LargeMessageIsSentInPieces) {
  FromWorker sent;
  sent.mutable_memory()->set_summary(std::string(20 << 20, 's'));
  ASSERT_TRUE(left_->Send(sent).ok());
  EXPECT_TRUE(left_->wants_write());
  FromWorker received;
  while (true) {
    ASSERT_TRUE(left_->Flush().ok());
    const auto whole = right_->Receive(&received);
    ASSERT_TRUE(whole.ok()) << whole.status();
    if (*whole) break;
  }
  EXPECT_FALSE(left_->wants_write());
  EXPECT_EQ(received.memory().summary().size(), size_t{20} << 20);
}

TEST_F(ControlChannelTest, RefusesToSendAboveTheFrameLimit) {
  FromWorker message;
  message.mutable_memory()->set_summary(std::string(kMaxFrameBytes, 's'));
  EXPECT_EQ(left_->Send(message).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ControlChannelTest, WhatWaitsToBeSentIsBounded) {
  FromWorker message;
  message.mutable_memory()->set_summary(std::string(60 << 20, 's'));
  EXPECT_TRUE(left_->Send(message).ok());
  EXPECT_TRUE(left_->Send(message).ok());
  EXPECT_EQ(left_->Send(message).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ControlChannelTest, DescriptorsTravelWithTheirMessage) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  ASSERT_TRUE(left_->Send(Request(1)).ok());
  ASSERT_TRUE(left_->Send(Request(2), {write_end.get(), read_end.get()}).ok());
  ToWorker message;
  ASSERT_TRUE(*right_->Receive(&message));
  ASSERT_TRUE(*right_->Receive(&message));
  std::vector<UniqueFd> received = right_->TakeDescriptors();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_TRUE(right_->TakeDescriptors().empty());
  ASSERT_EQ(::write(received[0].get(), "x", 1), 1);
  char byte = 0;
  ASSERT_EQ(::read(received[1].get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_NE(::fcntl(received[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(ControlChannelTest, TooManyDescriptorsBreakTheStream) {
  const int fd = raw_.get();
  const std::vector<int> four(4, fd);
  ASSERT_TRUE(left_->Send(Request(1), four).ok());
  ASSERT_TRUE(left_->Send(Request(2), four).ok());
  ASSERT_TRUE(left_->Send(Request(3), four).ok());
  ToWorker message;
  absl::Status status;
  for (int i = 0; i < 3 && status.ok(); ++i) {
    status = right_->Receive(&message).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ControlChannelTest, ClosedPeerIsUnavailable) {
  left_.reset();
  raw_.Reset();
  EXPECT_EQ(ReceiveCode(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(right_->Send(Request(1)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(ControlChannelTest, MessagesSentBeforeTheCloseAreStillRead) {
  ASSERT_TRUE(left_->Send(Request(9)).ok());
  left_.reset();
  raw_.Reset();
  ToWorker message;
  ASSERT_TRUE(*right_->Receive(&message));
  EXPECT_EQ(message.request_id(), 9u);
}

TEST_F(ControlChannelTest, LengthOfZeroIsRefused) {
  WriteRaw(Frame(0, ""));
  EXPECT_EQ(ReceiveCode(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ControlChannelTest, LengthAboveTheLimitIsRefusedBeforeItsBytesCome) {
  WriteRaw(Frame(kMaxFrameBytes + 1, "x"));
  EXPECT_EQ(ReceiveCode(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ControlChannelTest, BytesThatAreNoMessageAreRefused) {
  WriteRaw(Frame(3, "\xff\xff\xff"));
  EXPECT_EQ(ReceiveCode(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ControlChannelTest, FrameCutShortByTheCloseIsUnavailable) {
  WriteRaw(Frame(1000, "abc"));
  left_.reset();
  raw_.Reset();
  EXPECT_EQ(ReceiveCode(), absl::StatusCode::kUnavailable);
}

// Valid streams with bytes flipped, dropped and doubled. Every outcome must be
// a message or a status.
TEST_F(ControlChannelTest, RandomDamageNeverDoesMoreThanBreakTheStream) {
  const uint32_t seed = 4711;
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  std::string body;
  Request(42).SerializeToString(&body);
  const std::string frame = Frame(static_cast<uint32_t>(body.size()), body);
  for (int round = 0; round < 2000; ++round) {
    SetUp();
    std::string stream = frame + frame + frame;
    for (int damage = 0; damage < 3; ++damage) {
      const size_t at = random() % stream.size();
      switch (random() % 3) {
        case 0:
          stream[at] = static_cast<char>(random());
          break;
        case 1:
          stream.erase(at, 1);
          break;
        default:
          stream.insert(at, 1, stream[at]);
      }
    }
    WriteRaw(stream);
    left_.reset();
    raw_.Reset();
    ToWorker message;
    int messages = 0;
    while (right_->Receive(&message).ok()) ASSERT_LE(++messages, 50);
  }
}

class ControlListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/listenerXXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(ControlListenerTest, ConnectsThroughAPathLongerThanSunPath) {
  const std::string deep = folder_ + "/" + std::string(120, 'd');
  std::filesystem::create_directory(deep);
  auto listener = ControlListener::Listen(deep + "/socket");
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat info = {};
  ASSERT_EQ(::stat((deep + "/socket").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  auto client = ControlChannel::Connect(deep + "/socket");
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(client->peer_pid(), ::getpid());
  auto server = listener->Accept();
  ASSERT_TRUE(server.ok());
  ASSERT_TRUE(client->Send(Request(5)).ok());
  ToWorker message;
  ASSERT_TRUE(*server->Receive(&message));
  EXPECT_EQ(message.request_id(), 5u);
}

TEST_F(ControlListenerTest, NothingThereIsNotFound) {
  EXPECT_EQ(ControlChannel::Connect(folder_ + "/socket").status().code(),
            absl::StatusCode::kNotFound);
  { auto listener = ControlListener::Listen(folder_ + "/socket"); }
  EXPECT_EQ(ControlChannel::Connect(folder_ + "/socket").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ControlListenerTest, ReplacesTheSocketOfADeadListener) {
  { auto listener = ControlListener::Listen(folder_ + "/socket"); }
  auto listener = ControlListener::Listen(folder_ + "/socket");
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(listener->Accept().status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(ControlChannel::Connect(folder_ + "/socket").ok());
  EXPECT_TRUE(listener->Accept().ok());
}

}  // namespace
}  // namespace gpupool::server
