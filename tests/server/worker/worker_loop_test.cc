#include "server/worker/worker_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "gtest/gtest.h"
#include "server/ipc/slot_ring.h"
#include "tests/server/worker/fake_engine.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using testing_engine::FakeEngine;
using worker::v1::FromWorker;
using worker::v1::ToWorker;

// A worker's loop on a thread, and the daemon's end of its connection.
class WorkerLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/loopXXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    Stop();
    std::filesystem::remove_all(folder_);
  }
  void StartLoop(absl::Duration orphan_timeout = absl::Minutes(1)) {
    WorkerLoopOptions options;
    options.device = "cpu:0";
    options.boot_id = "boot";
    options.orphan_timeout = orphan_timeout;
    options.heartbeat_interval = absl::Milliseconds(50);
    options.readings_interval = absl::Hours(1);
    options.stop_fd = stop_.get();
    loop_ = std::make_unique<WorkerLoop>(
        options, &engine_, *ControlListener::Listen(SocketPath()),
        *ReportSpool::Open(folder_ + "/spool", 1000));
    thread_ = std::thread([this] { loop_->Run(); });
  }
  void Stop() {
    if (!thread_.joinable()) return;
    const uint64_t one = 1;
    ASSERT_EQ(::write(stop_.get(), &one, sizeof(one)), 8);
    thread_.join();
    loop_.reset();
  }
  std::string SocketPath() const { return folder_ + "/socket"; }

  static std::optional<FromWorker> Next(ControlChannel* channel) {
    FromWorker message;
    const absl::Time limit = absl::Now() + kPatience;
    while (absl::Now() < limit) {
      const auto whole = channel->Receive(&message);
      if (!whole.ok()) return std::nullopt;  // closed
      if (*whole) return message;
      pollfd readable = {channel->fd(), POLLIN, 0};
      ::poll(&readable, 1, 100);
    }
    ADD_FAILURE() << "the worker says nothing";
    return std::nullopt;
  }
  // Returns the next message that is neither a heartbeat nor a report.
  static std::optional<FromWorker> NextReply(ControlChannel* channel) {
    while (auto message = Next(channel)) {
      if (!message->has_heartbeat() && !message->has_report()) return message;
    }
    return std::nullopt;
  }
  ToWorker Hello(uint64_t last_report = 0) {
    ToWorker request;
    request.set_request_id(1);
    request.mutable_hello()->set_protocol_version(1);
    request.mutable_hello()->set_last_report_sequence(last_report);
    return request;
  }
  ControlChannel Connect() { return *ControlChannel::Connect(SocketPath()); }
  ControlChannel ConnectWithHello() {
    ControlChannel channel = Connect();
    EXPECT_TRUE(channel.Send(Hello()).ok());
    const auto reply = NextReply(&channel);
    EXPECT_TRUE(reply.has_value() && reply->has_hello());
    return channel;
  }
  static bool IsClosed(ControlChannel* channel) {
    while (Next(channel).has_value()) {
    }
    return !::testing::Test::HasFailure();
  }

  absl::Notification gate_;
  absl::Notification plan_gate_;
  FakeEngine engine_{{.step_time = std::chrono::milliseconds(1),
                      .readings_error = absl::OkStatus(),
                      .plan_gate = &plan_gate_,
                      .inspect_gate = &gate_}};
  UniqueFd stop_{::eventfd(0, EFD_CLOEXEC)};
  std::string folder_;
  std::unique_ptr<WorkerLoop> loop_;
  std::thread thread_;
};

TEST_F(WorkerLoopTest, HelloIsAnsweredAndHeartbeatsFollow) {
  StartLoop();
  ControlChannel channel = Connect();
  ASSERT_TRUE(channel.Send(Hello()).ok());
  const auto reply = Next(&channel);
  ASSERT_TRUE(reply.has_value() && reply->has_hello());
  EXPECT_EQ(reply->request_id(), 1u);
  EXPECT_EQ(reply->hello().device(), "cpu:0");
  EXPECT_EQ(reply->hello().worker_boot_id(), "boot");
  EXPECT_EQ(reply->hello().info().kind(), "cpu");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Next(&channel)->has_heartbeat());
  }
}

TEST_F(WorkerLoopTest, AProfileIsAnsweredWhenItsStepsAreMade) {
  StartLoop();
  ControlChannel channel = ConnectWithHello();
  ToWorker start;
  start.mutable_start_job()->set_job_id(7);
  start.mutable_start_job()->set_attempt(1);
  start.mutable_start_job()->mutable_spec()->mutable_training()->set_steps(
      1000000);
  ASSERT_TRUE(channel.Send(start).ok());
  ToWorker request;
  request.set_request_id(5);
  request.mutable_profile_job()->set_job_id(7);
  request.mutable_profile_job()->set_attempt(1);
  request.mutable_profile_job()->set_steps(3);
  ASSERT_TRUE(channel.Send(request).ok());
  auto reply = NextReply(&channel);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->request_id(), 5u);
  EXPECT_EQ(reply->code(), 0);
  EXPECT_EQ(reply->profile_job().steps(), 3u);
  request.mutable_profile_job()->set_job_id(8);
  ASSERT_TRUE(channel.Send(request).ok());
  reply = NextReply(&channel);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code(), static_cast<int>(absl::StatusCode::kNotFound));
}

TEST_F(WorkerLoopTest, UnknownProtocolVersionIsRefusedInWords) {
  StartLoop();
  ControlChannel channel = Connect();
  ToWorker hello = Hello();
  hello.mutable_hello()->set_protocol_version(2);
  ASSERT_TRUE(channel.Send(hello).ok());
  const auto reply = Next(&channel);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(IsClosed(&channel));
}

TEST_F(WorkerLoopTest, HelloWithARingNeedsItsDescriptors) {
  StartLoop();
  ControlChannel channel = Connect();
  ToWorker hello = Hello();
  hello.mutable_hello()->set_has_ring(true);
  ASSERT_TRUE(channel.Send(hello).ok());
  EXPECT_EQ(Next(&channel)->code(),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
  ControlChannel second = Connect();
  const int fd = stop_.get();  // no memory region
  ASSERT_TRUE(second.Send(hello, {fd, fd, fd}).ok());
  EXPECT_EQ(Next(&second)->code(),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
}

TEST_F(WorkerLoopTest, FirstMessageMustBeHello) {
  StartLoop();
  ControlChannel channel = Connect();
  ToWorker request;
  request.set_request_id(1);
  request.mutable_get_memory();
  ASSERT_TRUE(channel.Send(request).ok());
  EXPECT_TRUE(IsClosed(&channel));
}

TEST_F(WorkerLoopTest, BrokenFrameEndsTheConnectionNotTheWorker) {
  StartLoop();
  ControlChannel good = ConnectWithHello();
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff rubbish", 12), std::string(8, '\0'),
        std::string("\x03\0\0\0\xff\xff\xff", 7)}) {
    UniqueFd raw(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    SocketPath().copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::connect(raw.get(), reinterpret_cast<sockaddr*>(&address),
                        sizeof(address)),
              0);
    ASSERT_GT(::send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    pollfd closed = {raw.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&closed, 1, 10000), 1);
    char byte = 0;
    EXPECT_LE(::recv(raw.get(), &byte, 1, 0), 0);
  }
  EXPECT_TRUE(Next(&good)->has_heartbeat());
}

TEST_F(WorkerLoopTest, NewerConnectionReplacesTheOlderOne) {
  StartLoop();
  ControlChannel first = ConnectWithHello();
  ControlChannel stranger = Connect();  // sends nothing, and is harmless
  EXPECT_TRUE(Next(&first)->has_heartbeat());
  ControlChannel second = ConnectWithHello();
  EXPECT_TRUE(IsClosed(&first));
  EXPECT_TRUE(Next(&second)->has_heartbeat());
}

TEST_F(WorkerLoopTest, ReportsComeAgainUntilAcknowledged) {
  StartLoop();
  std::optional<ControlChannel> channel = ConnectWithHello();
  ToWorker request;
  request.mutable_start_job()->set_job_id(7);
  request.mutable_start_job()->set_attempt(1);
  request.mutable_start_job()->mutable_spec()->mutable_training()->set_steps(2);
  ASSERT_TRUE(channel->Send(request).ok());
  std::vector<uint64_t> sequences;
  while (auto message = Next(&*channel)) {
    if (!message->has_report()) continue;
    sequences.push_back(message->report().sequence());
    if (message->report().has_ended()) break;
  }
  ASSERT_EQ(sequences.size(), 5u);
  channel.reset();
  channel = Connect();
  ASSERT_TRUE(channel->Send(Hello(sequences[2])).ok());
  const auto reply = Next(&*channel);
  ASSERT_EQ(reply->hello().running_size(), 1);  // its end comes later
  EXPECT_TRUE(reply->hello().running(0).left());
  EXPECT_EQ(Next(&*channel)->report().sequence(), sequences[3]);
  EXPECT_EQ(Next(&*channel)->report().sequence(), sequences[4]);
  ToWorker acknowledge;
  acknowledge.mutable_acknowledge_reports()->set_through_sequence(sequences[4]);
  ASSERT_TRUE(channel->Send(acknowledge).ok());
  ToWorker memory;
  memory.set_request_id(9);
  memory.mutable_get_memory();
  ASSERT_TRUE(channel->Send(memory).ok());
  EXPECT_EQ(NextReply(&*channel)->request_id(), 9u);
  Stop();
  EXPECT_TRUE(ReportSpool::Open(folder_ + "/spool", 1)->reports().empty());
}

TEST_F(WorkerLoopTest, AttemptThatWaitsForTheComputeThreadIsSaidToRun) {
  StartLoop();
  ControlChannel first = ConnectWithHello();
  ToWorker plan;
  plan.set_request_id(77);
  plan.mutable_plan_training();
  ASSERT_TRUE(first.Send(plan).ok());
  ToWorker start;
  start.mutable_start_job()->set_job_id(7);
  start.mutable_start_job()->set_attempt(3);
  start.mutable_start_job()->mutable_spec()->mutable_training()->set_steps(1);
  ASSERT_TRUE(first.Send(start).ok());
  auto message = Next(&first);
  while (message.has_value() && message->heartbeat().running_size() == 0) {
    message = Next(&first);
  }
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->heartbeat().running(0).job_id(), 7u);
  EXPECT_EQ(message->heartbeat().running(0).attempt(), 3u);
  ControlChannel second = Connect();
  ASSERT_TRUE(second.Send(Hello()).ok());
  EXPECT_EQ(Next(&second)->hello().running_size(), 1);
  plan_gate_.Notify();
}

TEST_F(WorkerLoopTest, PlansAreNotDelayedByADatasetThatIsRead) {
  plan_gate_.Notify();
  StartLoop();
  ControlChannel channel = ConnectWithHello();
  ToWorker inspect;
  inspect.set_request_id(77);
  inspect.mutable_inspect_dataset()->mutable_layout()->set_features_array(
      "gated");
  ASSERT_TRUE(channel.Send(inspect).ok());
  ToWorker plan;
  plan.set_request_id(78);
  plan.mutable_plan_training();
  ASSERT_TRUE(channel.Send(plan).ok());
  EXPECT_EQ(NextReply(&channel)->request_id(), 78u);
  gate_.Notify();
  const auto inspected = NextReply(&channel);
  EXPECT_EQ(inspected->request_id(), 77u);
  EXPECT_EQ(inspected->dataset().rows(), 7u);
}

TEST_F(WorkerLoopTest, MemoryIsTendedWhileTheComputeThreadIsBusy) {
  StartLoop();
  ControlChannel channel = ConnectWithHello();
  const auto ask = [&channel](ToWorker request) {
    request.set_request_id(9);
    EXPECT_TRUE(channel.Send(request).ok());
    auto reply = NextReply(&channel);
    EXPECT_TRUE(reply.has_value() && reply->request_id() == 9);
    return *std::move(reply);
  };
  ToWorker request;
  request.mutable_plan_training();
  ASSERT_TRUE(channel.Send(request).ok());  // no reply is wanted
  request.mutable_get_memory();
  EXPECT_EQ(ask(request).memory().stats().by_pytorch_name().at("num_ooms"), 3u);
  request.mutable_reset_peak();
  EXPECT_EQ(ask(request).memory().stats().device(), "cpu:0");
  request.mutable_set_memory_fraction()->set_fraction(0.75);
  EXPECT_EQ(ask(request).memory().stats().device(), "cpu:0");
  request.mutable_set_memory_fraction()->set_fraction(0.25);
  const FromWorker refused = ask(request);
  EXPECT_EQ(refused.code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(refused.error(), "more is held");
  request.mutable_record_memory_history()->set_max_entries(7);
  EXPECT_EQ(ask(request).code(), 0);
  request.mutable_dump_memory();
  EXPECT_EQ(ask(request).dump_memory().sha256(),
            testing_engine::DigestOfStep(7));
  plan_gate_.Notify();
}

TEST_F(WorkerLoopTest, HeartbeatsCarryReadingsWhenThereAreNewOnes) {
  StartLoop();
  ControlChannel channel = ConnectWithHello();
  int with_readings = 0;
  for (int i = 0; i < 5; ++i) {
    const auto message = Next(&channel);
    ASSERT_TRUE(message.has_value() && message->has_heartbeat());
    with_readings += message->heartbeat().has_readings();
  }
  EXPECT_EQ(with_readings, 1);
}

TEST_F(WorkerLoopTest, ReplyForAnOldConnectionIsNotGivenToTheNewOne) {
  StartLoop();
  ControlChannel first = ConnectWithHello();
  ToWorker plan;
  plan.set_request_id(77);
  plan.mutable_inspect_dataset();
  ASSERT_TRUE(first.Send(plan).ok());
  ControlChannel second = Connect();
  ASSERT_TRUE(second.Send(Hello()).ok());
  for (int i = 0; i < 4; ++i) EXPECT_NE(Next(&second)->request_id(), 77u);
}

TEST_F(WorkerLoopTest, ShutdownCheckpointsSendsTheReportsAndEnds) {
  StartLoop();
  ControlChannel channel = ConnectWithHello();
  ToWorker request;
  request.mutable_start_job()->set_job_id(7);
  request.mutable_start_job()->set_attempt(1);
  request.mutable_start_job()->mutable_spec()->mutable_training()->set_steps(
      1000000);
  ASSERT_TRUE(channel.Send(request).ok());
  while (true) {
    const auto message = Next(&channel);
    ASSERT_TRUE(message.has_value());
    if (message->report().has_progress()) break;
  }
  request.mutable_shutdown();
  ASSERT_TRUE(channel.Send(request).ok());
  bool checkpoint = false;
  bool ended = false;
  while (auto message = Next(&channel)) {
    checkpoint |= message->report().has_checkpoint();
    ended |=
        message->report().has_ended() &&
        message->report().ended().outcome() != worker::v1::JobEnded::SAVING;
    if (ended) break;
  }
  EXPECT_TRUE(checkpoint);
  EXPECT_TRUE(ended);
  thread_.join();
}

TEST_F(WorkerLoopTest, OrphanWithoutWorkEnds) {
  StartLoop(absl::Milliseconds(100));
  const absl::Time start = absl::Now();
  thread_.join();
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(100));
}

TEST_F(WorkerLoopTest, OrphanThatTrainsGoesOnUntilTheJobHasEnded) {
  // The daemon connects in time, and the job runs longer than the wait for a
  // daemon.
  StartLoop(absl::Milliseconds(500));
  {
    ControlChannel channel = ConnectWithHello();
    ToWorker request;
    request.mutable_start_job()->set_job_id(7);
    request.mutable_start_job()->mutable_spec()->mutable_training()->set_steps(
        1500);
    ASSERT_TRUE(channel.Send(request).ok());
    while (!Next(&channel)->has_report()) {
    }
  }
  thread_.join();
  const auto spool = ReportSpool::Open(folder_ + "/spool", 1);
  EXPECT_EQ(spool->reports().back().ended().outcome(),
            worker::v1::JobEnded::SUCCEEDED);
}

}  // namespace
}  // namespace gpupool::server
