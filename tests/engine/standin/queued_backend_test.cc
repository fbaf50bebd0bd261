#include "tests/engine/standin/queued_backend.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace gpupool::engine::standin {
namespace {

constexpr uint64_t kRangeBytes = uint64_t{4} << 20;

// Adds up the first bytes of its inputs; refuses 13.
class AddKernel : public Kernel {
 public:
  absl::Status Bind(const KernelBuffers& buffers) override {
    buffers_ = buffers;
    return absl::OkStatus();
  }
  absl::Status Run() override {
    int sum = 0;
    for (const std::byte* input : buffers_.inputs) sum += int(*input);
    *buffers_.outputs[0] = std::byte(sum);
    return sum == 13 ? absl::InvalidArgumentError("thirteen")
                     : absl::OkStatus();
  }

 private:
  KernelBuffers buffers_;
};

class AddBackend : public DeviceBackend {
 public:
  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest&) override {
    return std::make_unique<AddKernel>();
  }
};

class QueuedBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    begin_ = *pages_.ReserveRange(kRangeBytes);
    const PageRange at = {begin_, pages_.granularity()};
    ASSERT_TRUE(pages_.Map(at, *pages_.CreateChunk(at.bytes)).ok());
    auto* const data = reinterpret_cast<std::byte*>(begin_);
    kernel_ = *backend_.Compile({graph_, node_});
    KernelBuffers buffers;
    buffers.inputs = {data, data + 64};
    buffers.outputs = {data + 128};
    ASSERT_TRUE(kernel_->Bind(buffers).ok());
  }

  absl::Status QueueRun() {
    auto* const data = reinterpret_cast<std::byte*>(begin_);
    Transfer& transfer = backend_.transfer();
    const absl::Span<const std::byte> from(in_);
    EXPECT_TRUE(transfer.CopyToDevice(data, from.subspan(0, 1)).ok());
    EXPECT_TRUE(transfer.CopyOnDevice(data + 64, data, 1).ok());
    EXPECT_TRUE(kernel_->Run().ok());
    EXPECT_TRUE(transfer.CopyFromDevice(absl::MakeSpan(out_), data + 128).ok());
    return absl::OkStatus();
  }

  ProtectedPages pages_;
  uint64_t begin_ = 0;
  Graph graph_;
  Node node_;
  QueuedBackend backend_{std::make_unique<AddBackend>(), &pages_};
  std::unique_ptr<Kernel> kernel_;
  std::array<std::byte, 1> in_ = {std::byte{20}};
  std::array<std::byte, 1> out_ = {};
};

TEST_F(QueuedBackendTest, NothingHappensBeforeSomebodyWaits) {
  ASSERT_TRUE(QueueRun().ok());
  EXPECT_EQ(out_[0], std::byte{0});
  in_[0] = std::byte{4};  // too early: the copy sees it
  ASSERT_TRUE(backend_.FinishRun(graph_).ok());
  EXPECT_EQ(out_[0], std::byte{8});
}

TEST_F(QueuedBackendTest, ARecordingDoesAgainWhatItsFirstRunDid) {
  int runs = 0;
  const auto recording = backend_.Record([this, &runs] {
    ++runs;
    return QueueRun();
  });
  for (const int number : {1, 2, 3}) {
    in_[0] = std::byte(number);
    ASSERT_TRUE(recording->Start().ok());
    ASSERT_TRUE(backend_.FinishRun(graph_).ok());
    EXPECT_EQ(out_[0], std::byte(2 * number));
  }
  EXPECT_EQ(runs, 1);
}

TEST_F(QueuedBackendTest, ErrorsAreSaidAtTheEndOfTheRunOnce) {
  auto* const data = reinterpret_cast<std::byte*>(begin_);
  ASSERT_TRUE(backend_.transfer().Clear(data, 128).ok());
  in_[0] = std::byte{13};
  ASSERT_TRUE(
      backend_.transfer().CopyToDevice(data, absl::MakeConstSpan(in_)).ok());
  ASSERT_TRUE(kernel_->Run().ok());
  EXPECT_TRUE(backend_.transfer().Synchronize().ok());
  EXPECT_EQ(backend_.FinishRun(graph_).message(), "thirteen");
  EXPECT_TRUE(backend_.FinishRun(graph_).ok());
}

}  // namespace
}  // namespace gpupool::engine::standin
