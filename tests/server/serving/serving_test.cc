#include "server/serving/serving.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/ensemble_fixture.h"
#include "tests/server/serving/fake_worker.h"
#include "tests/server/serving/sequence_fixture.h"
#include "tests/server/serving/served_model.h"
#include "tests/server/serving/test_call.h"

namespace gpupool::server {
namespace {

struct Observed {
  std::atomic<int> requests{0};
  std::atomic<int> batches{0};
  std::atomic<int> unrouted{0};
};

class CountingObserver : public ServingObserver {
 public:
  explicit CountingObserver(Observed* observed) : observed_(observed) {}
  std::unique_ptr<VersionObserver> Observe(const std::string&, uint64_t,
                                           uint32_t) override {
    class Version : public VersionObserver {
     public:
      explicit Version(Observed* observed) : observed_(observed) {}
      void RequestDone(const RequestSample&) override { ++observed_->requests; }
      void BatchDone(const BatchSample&) override { ++observed_->batches; }
      void CacheDone(const CacheSample&) override {}
      void QueueLength(size_t) override {}
      void UnderLoad(bool) override {}
      void Sequences(const SequenceCounts&) override {}

     private:
      Observed* const observed_;
    };
    return std::make_unique<Version>(observed_);
  }
  void RequestUnrouted(absl::StatusCode) override { ++observed_->unrouted; }

 private:
  Observed* const observed_;
};

// Returns x -> digits -> digits -> y.
EnsembleSpec TwiceDigits() {
  EnsembleSpec spec = ChainSpec();
  spec.steps = {StepOf("digits", {{"input", "x"}}, {{"output", "m"}}),
                StepOf("digits", {{"input", "m"}}, {{"output", "y"}})};
  spec.max_in_flight = 1024;
  return spec;
}

class ServingTest : public ::testing::Test {
 protected:
  void Ready(uint64_t version, uint64_t id, const std::string& device) {
    serving_.VersionReady(MakeModelVersion("digits", version, id), device);
  }
  absl::Status Infer(const std::string& version = "") {
    auto handle = serving_.router().Route("digits", version);
    if (!handle.ok()) return handle.status();
    TestCall call(1, {1, 2});
    (*handle)->batcher().Enqueue(&call);
    return call.WaitUntilDone() ? call.status()
                                : absl::InternalError("no answer");
  }

  Observed observed_;
  CountingObserver observer_{&observed_};
  std::map<std::string, std::unique_ptr<FakeWorker>> workers_;
  ResponseCache cache_{{.limit_bytes = 1 << 20}};
  Serving serving_{{
      .ring =
          [this](const std::string& device) {
            const auto it = workers_.find(device);
            return it == workers_.end() ? nullptr : it->second->ring();
          },
      .catalogue = [](absl::string_view name) -> absl::StatusOr<v1::Model> {
        if (name != "digits") return absl::NotFoundError("not stored");
        v1::Model model;
        model.set_name(std::string(name));
        *model.add_versions() = MakeModelVersion(model.name(), 1, 10);
        return model;
      },
      .observer = &observer_,
      .cache = &cache_,
  }};
};

TEST_F(ServingTest, AVersionAnswersFromVersionReadyOn) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  EXPECT_TRUE(absl::IsUnavailable(Infer()));
  Ready(1, 10, "cpu:0");
  EXPECT_TRUE(Infer().ok());
  EXPECT_TRUE(Infer("1").ok());
}

// The plan says that rows influence each other.
TEST_F(ServingTest, AVersionThatComputesAloneTakesOneRequestPerBatch) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  workers_["cpu:0"]->Pause();
  v1::ModelVersion version = MakeModelVersion("digits", 1, 10);
  version.mutable_plan()->set_computes_alone(true);
  serving_.VersionReady(version, "cpu:0");
  auto handle = serving_.router().Route("digits", "");
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(std::make_unique<TestCall>(1, std::vector<float>{1, 2}));
    (*handle)->batcher().Enqueue(calls.back().get());
  }
  workers_["cpu:0"]->Resume();
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitUntilDone());
    EXPECT_TRUE(call->status().ok()) << call->status();
  }
  EXPECT_THAT(workers_["cpu:0"]->batches(), ::testing::ElementsAre(1, 1, 1, 1));
}

TEST_F(ServingTest, AVersionOfALostWorkerComesBackOnAnotherDevice) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  workers_["cpu:1"] = std::make_unique<FakeWorker>();
  Ready(1, 10, "cpu:0");
  workers_["cpu:0"]->Die();
  serving_.WorkerLost("cpu:0");
  EXPECT_TRUE(absl::IsUnavailable(Infer()));
  Ready(1, 10, "cpu:1");
  EXPECT_TRUE(Infer().ok());
  EXPECT_EQ(serving_.registry().FindById(10)->device(), "cpu:1");
}

// A request that comes while there is no worker waits as those do that were
// queued before.
TEST_F(ServingTest, ARequestThatComesAfterTheLossWaitsForTheNextWorker) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  workers_["cpu:1"] = std::make_unique<FakeWorker>();
  Ready(1, 10, "cpu:0");
  workers_["cpu:0"]->Die();
  serving_.WorkerLost("cpu:0");
  auto handle = serving_.router().RouteToQueue("digits", "");
  ASSERT_TRUE(handle.ok()) << handle.status();
  TestCall call(1, {1, 2});
  (*handle)->batcher().Enqueue(&call);
  EXPECT_EQ((*handle)->batcher().queue_length(), 1u);
  Ready(1, 10, "cpu:1");
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(call.status().ok()) << call.status();
}

// Nothing waits for the next worker when control forgets the version.
TEST_F(ServingTest, ADrainOfALostVersionRefusesItsRequestsAtOnce) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  ASSERT_TRUE(serving_.ensembles().Define(TwiceDigits()).ok());
  Ready(1, 10, "cpu:0");
  workers_["cpu:0"]->Die();
  serving_.WorkerLost("cpu:0");
  auto handle = serving_.router().RouteToQueue("chain", "");
  ASSERT_TRUE(handle.ok()) << handle.status();
  TestCall call(1, {1, 2});
  (*handle)->executor().Enqueue(&call);
  EXPECT_FALSE(call.is_done());
  bool drained = false;
  serving_.VersionDraining(10, [&] { drained = true; });
  ASSERT_TRUE(call.is_done());
  EXPECT_TRUE(absl::IsUnavailable(call.status())) << call.status();
  EXPECT_EQ(serving_.registry().FindById(10), nullptr);
  EXPECT_FALSE(serving_.router().RouteToQueue("chain", "").ok());
  handle->reset();
  EXPECT_TRUE(drained);
}

TEST_F(ServingTest, ADrainOfALostVersionEndsItsSequences) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  const v1::ModelVersion version = SequenceVersion("digits");
  serving_.VersionReady(version, "cpu:0");
  const auto send = [&](bool start) {
    const VersionHandle handle = *serving_.router().Route("digits", "");
    TestCall call(1, {1, 2});
    call.sequence = {.id = {.number = 7}, .start = start};
    handle->executor().Enqueue(&call);
    EXPECT_TRUE(call.WaitUntilDone());
    return call.status();
  };
  EXPECT_TRUE(send(true).ok());
  EXPECT_TRUE(send(false).ok());
  serving_.WorkerLost("cpu:0");
  serving_.VersionDraining(version.id(), [] {});
  serving_.VersionReady(version, "cpu:0");
  const absl::Status refused = send(false);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_TRUE(send(true).ok());
}

// The state lies in the server, so the next worker goes on with it.
TEST_F(ServingTest, SequencesOutliveTheLossOfAWorker) {
  // y is twice the state (Compute), and the next state is x + s.
  const auto add = [](const SlotRequest& request) {
    const SlotHeader& header = request.header;
    std::vector<float> x(2), s(2);
    std::memcpy(s.data(), request.payload.data() + header.inputs[0].offset, 8);
    std::memcpy(x.data(), request.payload.data() + header.inputs[1].offset, 8);
    for (size_t i = 0; i < s.size(); ++i) s[i] += x[i];
    std::memcpy(request.payload.data() + header.outputs[1].offset, s.data(), 8);
    return absl::OkStatus();
  };
  for (const char* device : {"cpu:0", "cpu:1"}) {
    workers_[device] = std::make_unique<FakeWorker>();
    workers_[device]->SetRule(add);
  }
  v1::ModelVersion version = SequenceVersion("digits");
  version.mutable_plan()->mutable_inputs()->SwapElements(0, 1);
  serving_.VersionReady(version, "cpu:0");
  const VersionHandle handle = *serving_.router().Route("digits", "");
  const auto send = [&](bool start) {
    TestCall call(1, {1, 2});
    call.sequence = {.id = {.number = 7}, .start = start};
    handle->executor().Enqueue(&call);
    EXPECT_TRUE(call.WaitUntilDone());
    EXPECT_TRUE(call.status().ok()) << call.status();
    return call.output();
  };
  EXPECT_THAT(send(true), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(send(false), ::testing::ElementsAre(2, 4));
  workers_["cpu:0"]->Die();
  serving_.WorkerLost("cpu:0");
  serving_.VersionReady(version, "cpu:1");
  EXPECT_THAT(send(false), ::testing::ElementsAre(4, 8));
  EXPECT_EQ(handle->executor().statistics().Snapshot().success.count, 3u);
}

TEST_F(ServingTest, LosingOneWorkerLeavesOtherDevicesAlone) {
  workers_["cpu:1"] = std::make_unique<FakeWorker>();
  Ready(1, 10, "cpu:1");
  serving_.WorkerLost("cpu:0");
  EXPECT_TRUE(Infer().ok());
}

TEST_F(ServingTest, DrainWaitsForTheRequestInFlight) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  Ready(1, 10, "cpu:0");
  workers_["cpu:0"]->Pause();
  auto handle = serving_.router().Route("digits", "");
  ASSERT_TRUE(handle.ok());
  TestCall call(1, {1, 2});
  (*handle)->batcher().Enqueue(&call);
  absl::Notification drained;
  serving_.VersionDraining(10, [&] { drained.Notify(); });
  EXPECT_TRUE(absl::IsUnavailable(Infer()));
  EXPECT_FALSE(drained.HasBeenNotified());
  workers_["cpu:0"]->Resume();
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(call.status().ok());
  EXPECT_FALSE(drained.HasBeenNotified());
  handle->reset();
  EXPECT_TRUE(drained.HasBeenNotified());
}

TEST_F(ServingTest, StopAnswersWhatWaitsWithUnavailable) {
  Ready(1, 10, "cpu:7");  // no ring: the request waits
  auto handle = serving_.router().Route("digits", "");
  ASSERT_TRUE(handle.ok());
  TestCall call(1, {1, 2});
  (*handle)->batcher().Enqueue(&call);
  serving_.Start();
  EXPECT_TRUE(serving_.accepting());
  serving_.Stop();
  EXPECT_FALSE(serving_.accepting());
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(absl::IsUnavailable(call.status()));
}

TEST_F(ServingTest, AVersionWithSpecsThatCannotBeServedIsNotServed) {
  v1::ModelVersion version = MakeModelVersion("digits", 1, 10);
  version.mutable_plan()->mutable_inputs(0)->clear_data_type();
  serving_.VersionReady(version, "cpu:0");
  EXPECT_EQ(serving_.registry().FindById(10), nullptr);
}

TEST_F(ServingTest, TheObserverSeesEachRequestAndBatchOnce) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  Ready(1, 10, "cpu:0");
  ASSERT_TRUE(Infer().ok());
  ASSERT_TRUE(Infer().ok());
  EXPECT_EQ(observed_.requests, 2);
  EXPECT_EQ(observed_.batches, 2);
}

TEST_F(ServingTest, AnswersAreKeptForAllVersionsOfAModelWhileThatIsOn) {
  const auto cache_of = [this](uint64_t id) {
    return serving_.registry().FindById(id)->cache();
  };
  Ready(1, 10, "cpu:0");
  serving_.VersionReady(MakeModelVersion("cats", 1, 30), "cpu:0");
  EXPECT_EQ(cache_of(10), nullptr);
  serving_.SetCaching("digits", true);
  Ready(2, 20, "cpu:0");
  EXPECT_EQ(cache_of(10), &cache_);
  EXPECT_EQ(cache_of(20), &cache_);
  EXPECT_EQ(cache_of(30), nullptr);
  cache_.Insert({.version_id = 10, .digest = "a"}, {});
  cache_.Insert({.version_id = 30, .digest = "b"}, {});
  serving_.SetCaching("digits", false);
  Ready(3, 40, "cpu:0");
  EXPECT_EQ(cache_of(10), nullptr);
  EXPECT_EQ(cache_of(20), nullptr);
  EXPECT_EQ(cache_of(40), nullptr);
  EXPECT_EQ(cache_.usage().answers, 1u) << "that of another model";
}

TEST_F(ServingTest, AnswersOfAVersionGoWithItsLastRequest) {
  serving_.SetCaching("digits", true);
  Ready(1, 10, "cpu:0");
  cache_.Insert({.version_id = 10, .digest = "a"}, {});
  auto handle = serving_.router().RouteToQueue("digits", "1");
  ASSERT_TRUE(handle.ok()) << handle.status();
  bool drained = false;
  serving_.VersionDraining(10, [&] { drained = true; });
  cache_.Insert({.version_id = 10, .digest = "b"}, {});
  EXPECT_EQ(cache_.usage().answers, 2u);
  handle->reset();
  EXPECT_TRUE(drained);
  EXPECT_EQ(cache_.usage().answers, 0u);
}

TEST_F(ServingTest, AnswersOutliveTheLossOfAWorker) {
  serving_.SetCaching("digits", true);
  Ready(1, 10, "cpu:0");
  cache_.Insert({.version_id = 10, .digest = "a"}, {});
  serving_.WorkerLost("cpu:0");
  Ready(1, 10, "cpu:1");
  EXPECT_EQ(serving_.registry().FindById(10)->cache(), &cache_);
  EXPECT_EQ(cache_.usage().answers, 1u);
}

TEST_F(ServingTest, ManyRequestsToAnEnsembleAreAnsweredAtTheSameTime) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  ASSERT_TRUE(serving_.ensembles().Define(TwiceDigits()).ok());
  Ready(1, 10, "cpu:0");
  std::atomic<int> right{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 100; ++i) {
        auto handle = serving_.router().Route("chain", "");
        if (!handle.ok()) return;
        const auto x = static_cast<float>(100 * client + i);
        TestCall call(1, {x, -x});
        (*handle)->executor().Enqueue(&call);
        if (!call.WaitUntilDone() || !call.status().ok()) return;
        if (call.output() == std::vector<float>{4 * x, -4 * x}) ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 400);
}

TEST_F(ServingTest, AnEnsembleIsReadyWhileItsStepsAre) {
  workers_["cpu:0"] = std::make_unique<FakeWorker>();
  ASSERT_TRUE(serving_.ensembles().Define(TwiceDigits()).ok());
  EXPECT_FALSE(serving_.router().Route("chain", "").ok());
  Ready(1, 10, "cpu:0");
  EXPECT_TRUE(serving_.router().Route("chain", "").ok());
  workers_["cpu:0"]->Die();
  serving_.WorkerLost("cpu:0");
  EXPECT_TRUE(
      absl::IsUnavailable(serving_.router().Route("chain", "").status()));
  auto handle = serving_.router().RouteToQueue("chain", "");
  ASSERT_TRUE(handle.ok()) << handle.status();
  TestCall call(1, {1, 2});
  (*handle)->executor().Enqueue(&call);
  workers_["cpu:1"] = std::make_unique<FakeWorker>();
  Ready(1, 10, "cpu:1");
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(call.status().ok()) << call.status();
  EXPECT_TRUE(serving_.router().Route("chain", "").ok());
  handle->reset();
  absl::Notification drained;
  serving_.VersionDraining(10, [&] { drained.Notify(); });
  EXPECT_TRUE(drained.WaitForNotificationWithTimeout(kPatience))
      << "the ensemble pins it";
  EXPECT_FALSE(serving_.router().Route("chain", "").ok());
}

}  // namespace
}  // namespace gpupool::server
