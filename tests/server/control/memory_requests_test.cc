// What is asked of a device's memory goes to its worker, and its answer back.
#include "server/control/memory_requests.h"

#include <gmock/gmock.h>

#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using worker::v1::FromWorker;
using worker::v1::ToWorker;

class MemoryRequestsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    Hello("cpu:0");
  }
  // What the worker was sent, after it has answered with `reply`.
  ToWorker Serve(absl::StatusOr<FromWorker> reply) {
    FakeWorkers::Pending send;
    EXPECT_TRUE(workers->NextSend(send));
    EXPECT_EQ(send.device, "cpu:0");
    send.callback(std::move(reply));
    return send.message;
  }
  static FromWorker StatsOf(uint64_t bytes) {
    FromWorker reply;
    reply.mutable_memory()->mutable_stats()->set_limit_bytes(bytes);
    return reply;
  }
};

TEST_F(MemoryRequestsTest, FiguresAreTheWorkers) {
  Answer<worker::v1::MemoryReply> memory;
  loop->GetMemory("cpu:0", true, false, memory.callback());
  const ToWorker sent = Serve(StatsOf(7));
  EXPECT_TRUE(sent.get_memory().with_snapshot());
  EXPECT_FALSE(sent.get_memory().with_summary());
  EXPECT_EQ(memory.Wait()->stats().limit_bytes(), 7u);
  Answer<v1::MemoryStats> peak;
  loop->ResetPeak("cpu:0", peak.callback());
  EXPECT_TRUE(Serve(StatsOf(8)).has_reset_peak());
  EXPECT_EQ(peak.Wait()->limit_bytes(), 8u);
  Answer<v1::EmptyCacheResponse> cache;
  loop->EmptyCache("cpu:0", cache.callback());
  FromWorker freed;
  freed.mutable_empty_cache()->set_freed_bytes(9);
  EXPECT_TRUE(Serve(freed).has_empty_cache());
  EXPECT_EQ(cache.Wait()->freed_bytes(), 9u);
}

TEST_F(MemoryRequestsTest, TheFractionAndItsRefusalArePassedOn) {
  v1::SetMemoryFractionRequest request;
  request.set_device("cpu:0");
  request.set_fraction(0.5);
  Answer<v1::MemoryStats> taken;
  loop->SetMemoryFraction(request, taken.callback());
  EXPECT_EQ(Serve(StatsOf(3)).set_memory_fraction().fraction(), 0.5);
  EXPECT_EQ(taken.Wait()->limit_bytes(), 3u);
  Answer<v1::MemoryStats> refused;
  loop->SetMemoryFraction(request, refused.callback());
  Serve(absl::FailedPreconditionError("more is held"));
  EXPECT_EQ(refused.Wait().status().message(), "more is held");
}

TEST_F(MemoryRequestsTest, HistoryAndDumpsAreTheWorkersToo) {
  v1::RecordMemoryHistoryRequest request;
  request.set_device("cpu:0");
  request.set_enabled(true);
  request.set_max_entries(12);
  Answer<v1::RecordMemoryHistoryResponse> recorded;
  loop->RecordMemoryHistory(request, recorded.callback());
  const ToWorker sent = Serve(FromWorker());
  EXPECT_TRUE(sent.record_memory_history().enabled());
  EXPECT_EQ(sent.record_memory_history().max_entries(), 12u);
  EXPECT_TRUE(recorded.Wait().ok());
  Answer<worker::v1::DumpMemoryReply> dumped;
  loop->DumpMemory("cpu:0", dumped.callback());
  FromWorker reply;
  reply.mutable_dump_memory()->set_bytes(5);
  EXPECT_TRUE(Serve(reply).has_dump_memory());
  EXPECT_EQ(dumped.Wait()->bytes(), 5u);
}

TEST_F(MemoryRequestsTest, UnknownDevicesAreNotFound) {
  Answer<v1::EmptyCacheResponse> cache;
  loop->EmptyCache("cpu:9", cache.callback());
  EXPECT_TRUE(absl::IsNotFound(cache.Wait().status()));
  Answer<worker::v1::DumpMemoryReply> dump;
  loop->DumpMemory("cuda:0", dump.callback());
  EXPECT_THAT(std::string(dump.Wait().status().message()),
              HasSubstr("\"cuda:0\""));
  EXPECT_EQ(workers->sends(), 0u);
}

}  // namespace
}  // namespace gpupool::server
