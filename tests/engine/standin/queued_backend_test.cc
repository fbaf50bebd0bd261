#include "tests/engine/standin/queued_backend.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace gpupool::engine::standin {
namespace {

constexpr uint64_t kQueuedBytes = uint64_t{4} << 20;

// Adds the first bytes of its inputs. Refuses 13.
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

class QueuedBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    begin_ = *pages_.ReserveRange(kQueuedBytes);
    const PageRange at = {begin_, pages_.granularity()};
    ASSERT_TRUE(pages_.Map(at, *pages_.CreateChunk(at.bytes)).ok());
    kernel_ = *backend_.Compile({graph_, node_});
    KernelBuffers buffers;
    buffers.inputs = {data(), data() + 64};
    buffers.outputs = {data() + 128};
    ASSERT_TRUE(kernel_->Bind(buffers).ok());
    staging_ = *transfer().AllocateStaging(128);
    std::memset(staging_->data(), 0, 128);
  }

  std::byte* data() const { return reinterpret_cast<std::byte*>(begin_); }
  Transfer& transfer() { return backend_.transfer(); }
  std::byte& in() { return staging_->data()[0]; }
  std::byte& out() { return staging_->data()[64]; }
  absl::Status QueueRun() {
    EXPECT_TRUE(transfer().CopyToDevice(data(), {&in(), 1}).ok());
    EXPECT_TRUE(transfer().CopyOnDevice(data() + 64, data(), 1).ok());
    EXPECT_TRUE(kernel_->Run().ok());
    EXPECT_TRUE(transfer().CopyFromDevice({&out(), 1}, data() + 128).ok());
    return absl::OkStatus();
  }

  ProtectedPages pages_;
  uint64_t begin_ = 0;
  Graph graph_;
  Node node_;
  HostSide host_;
  QueuedBackend backend_{std::make_unique<AddBackend>(), &pages_, &host_};
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<StagingBuffer> staging_;
  std::array<std::byte, 256> own_ = {};  // pageable
};

TEST_F(QueuedBackendTest, NothingHappensBeforeSomebodyWaits) {
  in() = std::byte{20};
  ASSERT_TRUE(QueueRun().ok());
  EXPECT_EQ(out(), std::byte{0});
  in() = std::byte{4};  // too early: the copy reads this value
  ASSERT_TRUE(backend_.FinishRun(graph_).ok());
  EXPECT_EQ(out(), std::byte{8});
}

TEST_F(QueuedBackendTest, WhoeverAsksWhetherARunIsDoneSeesItGoOn) {
  in() = std::byte{20};
  ASSERT_TRUE(QueueRun().ok());
  for (int asked = 1; asked < 4; ++asked) {
    EXPECT_FALSE(backend_.RunIsDone());
    EXPECT_EQ(out(), std::byte{0});
  }
  EXPECT_TRUE(backend_.RunIsDone());
  EXPECT_EQ(out(), std::byte{40});
  EXPECT_TRUE(backend_.RunIsDone());
}

TEST_F(QueuedBackendTest, BackEndsOfOneDeviceDoNotWaitForEachOther) {
  QueuedBackend other(std::make_unique<AddBackend>(), &pages_, &host_);
  in() = std::byte{20};
  ASSERT_TRUE(QueueRun().ok());
  ASSERT_TRUE(other.transfer().Synchronize().ok());
  ASSERT_TRUE(other.FinishRun(graph_).ok());
  EXPECT_EQ(out(), std::byte{0});
}

// A transfer with another one beside it, and a number that moves from one to
// the other: staging, landing, result.
class CopiesBesideTest : public QueuedBackendTest,
                         public ::testing::WithParamInterface<WorkQueue::Pace> {
 protected:
  Transfer& beside() { return *backend_.transfer().beside(); }
  absl::Status Send(int number) {
    in() = std::byte(number);
    return beside().CopyToDevice(data(), {&in(), 1});
  }
  absl::Status Take() {
    EXPECT_TRUE(backend_.transfer().CopyOnDevice(data() + 64, data(), 1).ok());
    return backend_.transfer().CopyFromDevice({&out(), 1}, data() + 64);
  }

  QueuedBackend backend_{
      std::make_unique<AddBackend>(), &pages_, &host_, {.copies = GetParam()}};
};

TEST_P(CopiesBesideTest, WhatIsAwaitedBothWaysComesInTurn) {
  for (const int number : {1, 2, 3}) {
    ASSERT_TRUE(Send(number).ok());
    ASSERT_TRUE(backend_.transfer().Await(beside()).ok());
    ASSERT_TRUE(Take().ok());
    ASSERT_TRUE(beside().Await(backend_.transfer()).ok());
    ASSERT_TRUE(backend_.FinishRun(graph_).ok());
    EXPECT_EQ(out(), std::byte(number));
  }
  EXPECT_EQ(host_.copies_beside, 3);
}

TEST_P(CopiesBesideTest, ACopyThatIsNotAwaitedComesTooLateWhereAllIsLate) {
  ASSERT_TRUE(Send(1).ok());
  ASSERT_TRUE(Take().ok());
  ASSERT_TRUE(backend_.FinishRun(graph_).ok());
  const bool late = GetParam() == WorkQueue::Pace::kLate;
  EXPECT_EQ(out(), std::byte(late ? 0 : 1));
  EXPECT_TRUE(beside().Synchronize().ok());
  EXPECT_EQ(pages_.Real(data())[0], std::byte{1});
}

TEST_P(CopiesBesideTest, ACopyThatDoesNotAwaitComesTooEarlyWhereItIsEager) {
  ASSERT_TRUE(Send(1).ok());
  ASSERT_TRUE(backend_.transfer().Await(beside()).ok());
  ASSERT_TRUE(Take().ok());
  staging_->data()[1] = std::byte{2};
  ASSERT_TRUE(beside().CopyToDevice(data(), {staging_->data() + 1, 1}).ok());
  ASSERT_TRUE(backend_.FinishRun(graph_).ok());
  const bool eager = GetParam() == WorkQueue::Pace::kEager;
  EXPECT_EQ(out(), std::byte(eager ? 2 : 1));
}

TEST_P(CopiesBesideTest, WaitingForThemWaitsForWhatTheyAwait) {
  ASSERT_TRUE(Send(1).ok());
  ASSERT_TRUE(backend_.transfer().Await(beside()).ok());
  ASSERT_TRUE(Take().ok());
  ASSERT_TRUE(beside().Await(backend_.transfer()).ok());
  staging_->data()[1] = std::byte{2};
  ASSERT_TRUE(beside().CopyToDevice(data(), {staging_->data() + 1, 1}).ok());
  ASSERT_TRUE(beside().Synchronize().ok());
  EXPECT_EQ(out(), std::byte{1});
  EXPECT_EQ(pages_.Real(data())[0], std::byte{2});
}

INSTANTIATE_TEST_SUITE_P(Paces, CopiesBesideTest,
                         ::testing::Values(WorkQueue::Pace::kLate,
                                           WorkQueue::Pace::kEager));

TEST_F(QueuedBackendTest, ARecordingDoesAgainWhatItsCaptureHeld) {
  int runs = 0;
  const auto recording = backend_.Record([this, &runs] {
    ++runs;
    return QueueRun();
  });
  for (const int number : {1, 2, 3, 4}) {
    in() = std::byte(number);
    ASSERT_TRUE(recording->Start().ok());
    ASSERT_TRUE(backend_.FinishRun(graph_).ok());
    EXPECT_EQ(out(), std::byte(2 * number));
  }
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(backend_.recordings().captures(), 1u);
}

TEST_F(QueuedBackendTest, ARecordingOverTheBoundIsQueuedPiecewise) {
  for (const bool fits : {true, false}) {
    QueuedBackend backend(
        std::make_unique<AddBackend>(), &pages_, &host_,
        {.recordings = {.bytes = kCapturedPieceBytes - (fits ? 0 : 1)}});
    int runs = 0;
    const auto recording = backend.Record([this, &backend, &runs] {
      ++runs;
      return backend.transfer().Clear(data(), 128);
    });
    for (int i = 0; i < 4; ++i) {
      pages_.Real(data())[0] = std::byte{7};
      ASSERT_TRUE(recording->Start().ok());
      ASSERT_TRUE(backend.FinishRun(graph_).ok());
      EXPECT_EQ(pages_.Real(data())[0], std::byte{0});
    }
    EXPECT_EQ(backend.recordings().captures(), fits ? 1u : 0u);
    EXPECT_EQ(backend.recordings().bytes(), fits ? kCapturedPieceBytes : 0u);
    // Plainly, captured, and plainly again if the capture was refused.
    EXPECT_EQ(runs, fits ? 2 : 5);
  }
}

TEST_F(QueuedBackendTest, ErrorsAreSaidAtTheEndOfTheRunOnce) {
  ASSERT_TRUE(transfer().Clear(data(), 128).ok());
  in() = std::byte{13};
  ASSERT_TRUE(transfer().CopyToDevice(data(), {&in(), 1}).ok());
  ASSERT_TRUE(kernel_->Run().ok());
  EXPECT_TRUE(transfer().Synchronize().ok());
  EXPECT_EQ(backend_.FinishRun(graph_).message(), "thirteen");
  EXPECT_TRUE(backend_.FinishRun(graph_).ok());
}

TEST_F(QueuedBackendTest, PageableMemoryIsForCopiesThatAreWaitedFor) {
  const auto own = absl::MakeConstSpan(own_);
  ASSERT_TRUE(transfer().CopyToDevice(data(), own).ok());
  ASSERT_TRUE(transfer().Synchronize().ok());
  EXPECT_TRUE(backend_.FinishRun(graph_).ok());
  ASSERT_TRUE(transfer().CopyToDevice(data(), own).ok());
  EXPECT_TRUE(absl::IsInternal(backend_.FinishRun(graph_)));
  EXPECT_EQ(host_.pageable_copies, 2);
}

TEST_F(QueuedBackendTest, RegisteredMemoryIsKnownToAllBackEndsOfTheDevice) {
  QueuedBackend other(std::make_unique<AddBackend>(), &pages_, &host_);
  auto registration = transfer().Register(absl::MakeSpan(own_));
  ASSERT_TRUE(registration.ok());
  const auto own = absl::MakeConstSpan(own_);
  EXPECT_TRUE(other.transfer().IsRegistered(own.subspan(10, 100)));
  ASSERT_TRUE(other.transfer().CopyToDevice(data(), own.first(100)).ok());
  EXPECT_TRUE(other.FinishRun(graph_).ok());
  EXPECT_EQ(host_.registered_copies, 1);
  registration->reset();
  EXPECT_EQ(host_.unregistrations, 1);
  EXPECT_FALSE(other.transfer().IsRegistered(own.first(1)));
  host_.refusal = absl::ResourceExhaustedError("no more");
  EXPECT_EQ(transfer().Register(absl::MakeSpan(own_)).status(), host_.refusal);
  EXPECT_EQ(host_.registrations, 1);
}

using QueuedBackendDeathTest = QueuedBackendTest;

TEST_F(QueuedBackendDeathTest, RegisteredMemoryStaysUntilItsCopiesAreDone) {
  auto registration = *transfer().Register(absl::MakeSpan(own_));
  ASSERT_TRUE(transfer().CopyToDevice(data(), own_).ok());
  registration.reset();
  EXPECT_DEATH((void)transfer().Synchronize(), "check failed");
  auto again = *transfer().Register(absl::MakeSpan(own_));
  EXPECT_TRUE(transfer().Synchronize().ok());
}

TEST_F(QueuedBackendDeathTest, ACaptureHoldsNoAddressOfOneRequest) {
  const auto registration = *transfer().Register(absl::MakeSpan(own_));
  const auto recording =
      backend_.Record([this] { return transfer().CopyToDevice(data(), own_); });
  ASSERT_TRUE(recording->Start().ok());
  EXPECT_DEATH((void)recording->Start(), "check failed");
  EXPECT_TRUE(backend_.FinishRun(graph_).ok());
}

}  // namespace
}  // namespace gpupool::engine::standin
