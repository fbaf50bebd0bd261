#include "server/ipc/slot_ring_server.h"

#include <atomic>
#include <cstring>
#include <iostream>
#include <random>
#include <thread>

#include "gtest/gtest.h"
#include "tests/server/ipc/ring_pair.h"

namespace gpupool::server {
namespace {

using testing_ring::CopyOf;
using testing_ring::FillRequest;
using testing_ring::RingPair;

void SubmitOne(RingPair* pair, std::atomic<int>* answers,
               absl::StatusCode* code) {
  Slot slot = *pair->client->Acquire();
  FillRequest(&slot, 1);
  pair->client->Submit(std::move(slot), [=](absl::Status status, Slot) {
    *code = status.code();
    ++*answers;
  });
}

TEST(SlotRingServerTest, HeaderThatWasCorruptedAfterSubmitIsRefused) {
  RingPair pair = RingPair::Make({1, 4096});
  std::atomic<int> answers{0};
  absl::StatusCode code = absl::StatusCode::kOk;
  SubmitOne(&pair, &answers, &code);
  pair.shared_header(0)->inputs[0].offset = 1 << 20;
  EXPECT_FALSE(pair.server->Next().has_value());
  EXPECT_EQ(pair.server->refused(), 1u);
  while (answers == 0) std::this_thread::yield();
  EXPECT_EQ(code, absl::StatusCode::kInvalidArgument);
}

TEST(SlotRingServerTest, ChangesAfterNextDoNotReachTheRequest) {
  RingPair pair = RingPair::Make({1, 4096});
  std::atomic<int> answers{0};
  absl::StatusCode code = absl::StatusCode::kOk;
  SubmitOne(&pair, &answers, &code);
  auto request = pair.server->Next();
  ASSERT_TRUE(request.has_value());
  pair.shared_header(0)->inputs[0].bytes = ~uint64_t{0};
  EXPECT_EQ(request->header.inputs[0].bytes, 4u);
  pair.server->Complete(*request, absl::OkStatus());
}

TEST(SlotRingServerTest, EntryWithUnknownSlotIsSkipped) {
  RingPair pair = RingPair::Make({2, 4096});
  pair.submission_entries()[0].store((uint64_t{5} << 32) | 2);
  pair.submission_queue()->tail.store(1);
  EXPECT_FALSE(pair.server->Next().has_value());
  EXPECT_EQ(pair.server->refused(), 1u);
  EXPECT_FALSE(pair.server->broken());
}

TEST(SlotRingServerTest, OverwrittenQueueBreaksTheRing) {
  RingPair pair = RingPair::Make({2, 4096});
  pair.submission_queue()->tail.store(1000);
  EXPECT_FALSE(pair.server->Next().has_value());
  EXPECT_TRUE(pair.server->broken());
  EXPECT_FALSE(pair.server->HasRequests());
}

TEST(SlotRingServerTest, AttachRefusesWhatIsNoRing) {
  RingPair pair = RingPair::Make({2, 4096});
  const auto attach = [](const MemoryRegion& region) {
    return SlotRingServer::Attach(CopyOf(region.fd()), UniqueFd(), UniqueFd())
        .status()
        .code();
  };
  auto zeros = MemoryRegion::Create("zeros", 4096);
  EXPECT_EQ(attach(*zeros), absl::StatusCode::kInvalidArgument);
  auto* header = reinterpret_cast<RingHeader*>(zeros->data());
  *header = {kRingMagic, kRingVersion, 4000, 1 << 20};
  EXPECT_EQ(attach(*zeros), absl::StatusCode::kInvalidArgument);
  *header = {kRingMagic, kRingVersion, 0xffffffff, ~uint64_t{0}};
  EXPECT_EQ(attach(*zeros), absl::StatusCode::kInvalidArgument);
  *header = {kRingMagic, kRingVersion + 1, 1, 1};
  EXPECT_EQ(attach(*zeros), absl::StatusCode::kInvalidArgument);
}

// With random bytes anywhere in the shared region, the worker's end answers,
// refuses or breaks off, and never reads outside the region.
TEST(SlotRingServerTest, SurvivesRandomSharedMemory) {
  const uint32_t seed = 20260;
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    RingPair pair = RingPair::Make({4, 4096});
    for (int i = 0; i < 4; ++i) {
      auto* words = reinterpret_cast<uint32_t*>(pair.shared_header(i));
      for (size_t w = 0; w < sizeof(SlotHeader) / 4; ++w) {
        words[w] = random() % 3 == 0 ? random() : random() % 9;
      }
      pair.submission_entries()[i].store(random() % 6);
    }
    pair.submission_queue()->tail.store(random() % 6);
    for (int i = 0; i < 8; ++i) {
      if (auto request = pair.server->Next()) {
        for (uint32_t t = 0; t < request->header.input_count; ++t) {
          const SlotTensor& tensor = request->header.inputs[t];
          ASSERT_LE(tensor.offset + tensor.bytes, request->payload.size());
        }
      }
    }
  }
}

}  // namespace
}  // namespace gpupool::server
