// Runs on the caller's memory, on a device whose memory the host cannot touch
// and whose copies happen late. Tests the direction of copies, and that all
// paths give the results of a CPU device.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/engine/runtime/model_fixture.h"
#include "tests/engine/standin/queued_backend.h"
#include "tests/gpu/loaded_on.h"

namespace gpupool::engine {
namespace {

constexpr int kRows = 4;
constexpr size_t kRowNumbers = 64;
constexpr size_t kClasses = 3;

// The caller's memory: rows of inputs, then of outputs.
class Slot {
 public:
  Slot(float seed, size_t rows)
      : rows_(rows), numbers_(rows * (kRowNumbers + kClasses)) {
    for (size_t i = 0; i < rows * kRowNumbers; ++i) {
      numbers_[i] = seed + static_cast<float>(i * 7 % 17) / 17.0F;
    }
  }
  absl::Span<std::byte> all() {
    return {reinterpret_cast<std::byte*>(numbers_.data()),
            numbers_.size() * sizeof(float)};
  }
  HostInput input() {
    return {"input", all().first(rows_ * kRowNumbers * sizeof(float))};
  }
  HostOutput output() {
    return {"output", all().subspan(input().bytes.size())};
  }
  void Clear(size_t row) {
    std::fill_n(numbers_.begin() + static_cast<int64_t>(row * kRowNumbers),
                kRowNumbers, 0.0F);
  }
  std::vector<float> answer() const {
    return {numbers_.begin() + static_cast<int64_t>(rows_ * kRowNumbers),
            numbers_.end()};
  }

 private:
  const size_t rows_;
  std::vector<float> numbers_;
};

class ExecutorRunOnTest : public ::testing::Test {
 protected:
  static Graph Model() { return InferenceGraph(testing::DigitsModel(), kRows); }

  static absl::Status Run(Executor& executor, Slot& slot) {
    const HostInput input = slot.input();
    const HostOutput output = slot.output();
    return executor.RunOn({&input, 1}, {&output, 1});
  }
  absl::Status Run(Slot& slot) { return Run(loaded_.executor(), slot); }
  // Returns the answer of a CPU device.
  std::vector<float> Wanted(Slot slot) {
    EXPECT_TRUE(Run(on_cpu_.executor(), slot).ok());
    return slot.answer();
  }
  std::unique_ptr<HostRegistration> Register(absl::Span<std::byte> memory) {
    auto registration = backend_.transfer().Register(memory);
    EXPECT_TRUE(registration.ok()) << registration.status();
    return *std::move(registration);
  }

  CpuBackend cpu_{1};
  HostPageSource cpu_pages_;
  CachingAllocator cpu_allocator_{"cpu:0", uint64_t{1} << 30, &cpu_pages_};
  testing::LoadedOn on_cpu_{&cpu_, &cpu_allocator_, Model()};

  standin::ProtectedPages pages_;
  standin::HostSide host_;
  standin::QueuedBackend backend_{std::make_unique<CpuBackend>(1), &pages_,
                                  &host_};
  CachingAllocator allocator_{"cuda:0", uint64_t{1} << 30, &pages_};
  testing::LoadedOn loaded_{&backend_, &allocator_, Model()};
};

TEST_F(ExecutorRunOnTest, RegisteredBytesGoStraightWhateverTheirAddress) {
  std::vector<Slot> slots;
  std::vector<std::unique_ptr<HostRegistration>> registrations;
  for (int i = 0; i < 5; ++i) slots.emplace_back(static_cast<float>(i), kRows);
  for (Slot& slot : slots) registrations.push_back(Register(slot.all()));
  host_.staged_copies = host_.pageable_copies = 0;
  // The second run is captured, and later runs replay it.
  for (Slot& slot : slots) {
    ASSERT_TRUE(Run(slot).ok());
    EXPECT_EQ(slot.answer(), Wanted(slot));
  }
  EXPECT_EQ(backend_.recordings().captures(), 1u);
  EXPECT_EQ(host_.registered_copies, 10);
  EXPECT_EQ(host_.staged_copies, 0);
  EXPECT_EQ(host_.pageable_copies, 0);
}

TEST_F(ExecutorRunOnTest, OtherBytesGoByWayOfStaging) {
  host_.staged_copies = host_.pageable_copies = 0;
  for (int i = 0; i < 3; ++i) {
    Slot slot(static_cast<float>(i), kRows);
    ASSERT_TRUE(Run(slot).ok());
    EXPECT_EQ(slot.answer(), Wanted(slot));
  }
  EXPECT_EQ(host_.registered_copies, 0);
  EXPECT_EQ(host_.staged_copies, 6);
  EXPECT_EQ(host_.pageable_copies, 0);
}

TEST_F(ExecutorRunOnTest, ATensorThatIsRegisteredInPartIsStaged) {
  Slot slot(1, kRows);
  const auto registration =
      Register(slot.all().first(slot.input().bytes.size() - 4));
  ASSERT_TRUE(Run(slot).ok());
  EXPECT_EQ(slot.answer(), Wanted(slot));
  EXPECT_EQ(host_.registered_copies, 0);
}

TEST_F(ExecutorRunOnTest, AfterItsRegistrationMemoryIsStagedAgain) {
  Slot slot(1, kRows);
  Register(slot.all()).reset();
  ASSERT_TRUE(Run(slot).ok());
  EXPECT_EQ(slot.answer(), Wanted(slot));
  EXPECT_EQ(host_.registered_copies, 0);
  EXPECT_EQ(host_.unregistrations, 1);
}

// Missing rows must not be those of the previous run.
TEST_F(ExecutorRunOnTest, RowsThatAreMissingAreZeros) {
  Slot zeros(0, kRows);
  zeros.Clear(3);
  const std::vector<float> wanted = Wanted(zeros);
  for (const bool registered : {false, true}) {
    Slot before(3, kRows), answer(0, kRows), few(0, 3);
    ASSERT_TRUE(Run(before).ok());
    const auto registration = registered ? Register(few.all()) : nullptr;
    const HostInput input = few.input();
    const HostOutput output = answer.output();
    ASSERT_TRUE(loaded_.executor().RunOn({&input, 1}, {&output, 1}).ok());
    EXPECT_EQ(answer.answer(), wanted);
    ASSERT_TRUE(Run(few).ok());  // only three rows of the answer
    EXPECT_EQ(few.answer(), std::vector<float>(wanted.begin(),
                                               wanted.begin() + 3 * kClasses));
  }
}

TEST_F(ExecutorRunOnTest, StagedAndStraightRunsTakeTurnsWithPlainOnes) {
  Slot straight(2, kRows);
  const auto registration = Register(straight.all());
  for (int i = 0; i < 4; ++i) {
    loaded_.SetInputs(i);
    on_cpu_.SetInputs(i);
    ASSERT_TRUE(loaded_.executor().Run().ok());
    ASSERT_TRUE(on_cpu_.executor().Run().ok());
    EXPECT_EQ(loaded_.Outputs(), on_cpu_.Outputs());
    ASSERT_TRUE(Run(straight).ok());
    EXPECT_EQ(straight.answer(), Wanted(straight));
  }
  EXPECT_EQ(backend_.recordings().captures(), 2u);
}

TEST_F(ExecutorRunOnTest, UnknownNamesAndTooManyBytesAreRefused) {
  Slot slot(1, kRows + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Run(slot)));
  EXPECT_TRUE(absl::IsInvalidArgument(Run(on_cpu_.executor(), slot)));
  Slot right(1, kRows);
  HostInput input = right.input();
  HostOutput output = right.output();
  input.name = "nothing";
  EXPECT_TRUE(absl::IsInvalidArgument(
      loaded_.executor().RunOn({&input, 1}, {&output, 1})));
  input.name = "input";
  output.name = "nothing";
  EXPECT_TRUE(absl::IsInvalidArgument(
      loaded_.executor().RunOn({&input, 1}, {&output, 1})));
  // The next run must not be affected.
  ASSERT_TRUE(Run(right).ok());
  EXPECT_EQ(right.answer(), Wanted(right));
}

}  // namespace
}  // namespace gpupool::engine
