#include "engine/runtime/plan_only.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

// Chooses kernels of known sizes, and counts the live ones.
class SizedBackend : public DeviceBackend {
 public:
  explicit SizedBackend(int* alive) : alive_(alive) {}
  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override {
    if (request.node.op == Op::kSoftmax) {
      return absl::UnimplementedError("no kernel");
    }
    return std::make_unique<SizedKernel>(alive_);
  }
  bool PrefersIntegerProducts() const override { return true; }

 private:
  class SizedKernel : public Kernel {
   public:
    explicit SizedKernel(int* alive) : alive_(alive) { ++*alive_; }
    ~SizedKernel() override { --*alive_; }
    SizedKernel(const SizedKernel&) = delete;
    SizedKernel& operator=(const SizedKernel&) = delete;
    uint64_t workspace_bytes() const override { return 100; }
    uint64_t resident_bytes() const override { return 20; }
    std::string resident_format() const override { return "packed"; }
    absl::Status Bind(const KernelBuffers&) override {
      return absl::InternalError("bound");
    }
    absl::Status Run() override { return absl::InternalError("run"); }

   private:
    int* const alive_;
  };

  int* const alive_;
};

class PlanOnlyTest : public ::testing::Test {
 protected:
  PlanOnlyTest() {
    GraphBuilder builder(&graph_);
    const ValueId x = *builder.Input("x", {DType::kFloat32, {2, 3}});
    EXPECT_TRUE(builder.Emit(Op::kRelu, {x}).ok());
    EXPECT_TRUE(builder.Emit(Op::kSoftmax, {x}).ok());
  }
  CompileRequest RequestFor(size_t node) const {
    return {graph_, graph_.nodes()[node], {false}, {}};
  }

  int alive_ = 0;
  Graph graph_;
  PlanOnlyBackend backend_{std::make_unique<SizedBackend>(&alive_), true};
};

TEST_F(PlanOnlyTest, KernelsHaveTheSizesOfThoseChosenAndKeepNone) {
  const auto kernel = backend_.Compile(RequestFor(0));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ((*kernel)->workspace_bytes(), 100u);
  EXPECT_EQ((*kernel)->resident_bytes(), 20u);
  EXPECT_EQ((*kernel)->resident_format(), "packed");
  EXPECT_EQ(alive_, 0);
  EXPECT_TRUE((*kernel)->Bind({}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*kernel)->Run()));
}

TEST_F(PlanOnlyTest, IntegersAreAsFastAsOnTheDevice) {
  EXPECT_TRUE(backend_.PrefersIntegerProducts());
}

TEST_F(PlanOnlyTest, ARefusalIsPassedOn) {
  EXPECT_TRUE(absl::IsUnimplemented(backend_.Compile(RequestFor(1)).status()));
}

TEST_F(PlanOnlyTest, NothingIsCopied) {
  Transfer& transfer = backend_.transfer();
  EXPECT_FALSE(transfer.host_visible());
  std::array<std::byte, 4> bytes = {};
  EXPECT_TRUE(
      absl::IsFailedPrecondition(transfer.CopyToDevice(bytes.data(), bytes)));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      transfer.CopyFromDevice(absl::MakeSpan(bytes), bytes.data())));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      transfer.CopyOnDevice(bytes.data(), bytes.data(), 4)));
  EXPECT_TRUE(absl::IsFailedPrecondition(transfer.Clear(bytes.data(), 4)));
  EXPECT_TRUE(absl::IsFailedPrecondition(transfer.AllocateStaging(4).status()));
}

TEST_F(PlanOnlyTest, CopiesBesideAreThereWhereTheDeviceHasThem) {
  EXPECT_NE(backend_.transfer().beside(), nullptr);
  PlanOnlyBackend without(std::make_unique<SizedBackend>(&alive_), false);
  EXPECT_EQ(without.transfer().beside(), nullptr);
}

}  // namespace
}  // namespace gpupool::engine
