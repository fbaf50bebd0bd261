// Serving during training, and from memory that another process also maps.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/model_programs.h"
#include "engine/passes/pipeline.h"
#include "gpupool/v1/job.pb.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/loaded_on.h"

namespace gpupool::engine::testing {
namespace {

constexpr int kStreamRows = 12;
constexpr size_t kRingBytes = size_t{1} << 20;

Graph Training() {
  v1::TrainingSpec training =
      TrainingFromText("cross_entropy {} adam { learning_rate: 0.01 }");
  training.set_batch_size(kStreamRows);
  Graph graph = BuildTrainingGraph(DigitsModel(), {}, training)->graph;
  GPUPOOL_CHECK(RunPasses(graph, {}, nullptr).ok());
  return graph;
}

Graph Inference() {
  Graph graph = BuildInferenceGraph(DigitsModel(), false, kStreamRows)->graph;
  GPUPOOL_CHECK(RunPasses(graph, {}, nullptr).ok());
  return graph;
}

// Shared memory without a name, like the daemon's ring.
class SharedMemory {
 public:
  SharedMemory() {
    const int fd = memfd_create("ring", MFD_CLOEXEC);
    GPUPOOL_CHECK(fd >= 0 && ftruncate(fd, kRingBytes) == 0);
    data_ =
        mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    GPUPOOL_CHECK(data_ != MAP_FAILED);
    close(fd);
  }
  ~SharedMemory() { munmap(data_, kRingBytes); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  absl::Span<std::byte> all() const {
    return {static_cast<std::byte*>(data_), kRingBytes};
  }

 private:
  void* data_;
};

class StreamsOnGpu : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const auto serving = gpu().device().ServingBackend();
    ASSERT_TRUE(serving.ok()) << serving.status();
    model_ =
        std::make_unique<LoadedOn>(*serving, &gpu().allocator(), Inference());
  }
  // Returns the answer to the inputs of `step`, through the executor's own
  // memory.
  std::string Plain(int64_t step) {
    model_->SetInputs(step);
    EXPECT_TRUE(model_->executor().Run().ok());
    return model_->Outputs();
  }
  // Returns the same from and to `slot`.
  std::string In(absl::Span<std::byte> slot, int64_t step) {
    model_->SetInputs(step);
    const auto given = model_->executor().input("input");
    std::copy(given.begin(), given.end(), slot.begin());
    const HostInput input = {"input", slot.first(given.size())};
    const HostOutput output = {
        "output",
        slot.subspan(given.size(), model_->executor().output("output").size())};
    const absl::Status run =
        model_->executor().RunOn({&input, 1}, {&output, 1});
    EXPECT_TRUE(run.ok()) << run;
    return std::string(reinterpret_cast<const char*>(output.bytes.data()),
                       output.bytes.size());
  }

  std::unique_ptr<LoadedOn> model_;
};

TEST_F(StreamsOnGpu, AMappedRingIsPinnedAndServedFrom) {
  const SharedMemory ring;
  auto registration = gpu().transfer().Register(ring.all());
  ASSERT_TRUE(registration.ok()) << registration.status();
  ASSERT_NE(*registration, nullptr);
  EXPECT_TRUE(
      absl::IsInvalidArgument(gpu().transfer().Register(ring.all()).status()));
  for (int64_t step = 1; step < 6; ++step) {
    const size_t slot = static_cast<size_t>(step) * 65536;
    EXPECT_EQ(In(ring.all().subspan(slot, 65536), step), Plain(step));
  }
  registration->reset();
  EXPECT_EQ(In(ring.all(), 7), Plain(7));  // staged
  EXPECT_TRUE(gpu().transfer().Register(ring.all()).ok());
}

TEST_F(StreamsOnGpu, AnswersDoNotWaitForQueuedStepsNorChangeThem) {
  std::vector<std::string> wanted;
  for (int64_t step = 0; step < 10; ++step) wanted.push_back(Plain(step));
  const KernelOptions options{.deterministic = true};
  LoadedOn alone(&gpu().backend(), &gpu().allocator(), Training(), options);
  LoadedOn beside(&gpu().backend(), &gpu().allocator(), Training(), options);
  std::vector<std::byte> memory(kRingBytes);
  for (int64_t step = 1; step < 10; ++step) {
    alone.SetInputs(step);
    ASSERT_TRUE(alone.executor().Run().ok());
    beside.SetInputs(step);
    ASSERT_TRUE(beside.executor().Start().ok());
    EXPECT_EQ(In(absl::MakeSpan(memory), step),
              wanted[static_cast<size_t>(step)]);
    while (!beside.executor().IsDone()) {
    }
    ASSERT_TRUE(beside.executor().Finish().ok());
    EXPECT_EQ(beside.Outputs(), alone.Outputs()) << "step " << step;
  }
}

}  // namespace
}  // namespace gpupool::engine::testing
