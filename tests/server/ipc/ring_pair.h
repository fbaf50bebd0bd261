// Both ends of a slot ring in one process, for tests.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "server/ipc/slot_ring.h"
#include "server/ipc/slot_ring_server.h"

namespace gpupool::server::testing_ring {

inline UniqueFd CopyOf(int fd) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

// Fills one float in at offset 0 and one float out at offset 64.
inline void FillRequest(Slot* slot, float value) {
  SlotHeader& header = slot->header();
  header.rows = 1;
  header.input_count = header.output_count = 1;
  SlotTensor tensor = {};
  tensor.data_type = 1;
  tensor.rank = 1;
  tensor.dims[0] = 1;
  tensor.bytes = 4;
  header.inputs[0] = tensor;
  tensor.offset = 64;
  header.outputs[0] = tensor;
  std::memcpy(slot->payload().data(), &value, sizeof(value));
}

struct RingPair {
  std::shared_ptr<SlotRingClient> client;
  std::unique_ptr<SlotRingServer> server;
  MemoryRegion region;  // a third mapping, to corrupt memory

  static RingPair Make(const SlotRingOptions& options) {
    auto client = *SlotRingClient::Create(options);
    const auto fds = client->descriptors();
    auto server =
        *SlotRingServer::Attach(CopyOf(fds[0]), CopyOf(fds[1]), CopyOf(fds[2]));
    return RingPair{std::move(client), std::move(server),
                    *MemoryRegion::Attach(CopyOf(fds[0]))};
  }
  RingPair(std::shared_ptr<SlotRingClient> c, std::unique_ptr<SlotRingServer> s,
           MemoryRegion r)
      : client(std::move(c)), server(std::move(s)), region(std::move(r)) {}
  RingPair(RingPair&&) = default;
  ~RingPair() {
    if (client) client->FailAll(absl::UnavailableError("the test ends"));
  }

  RingGeometry geometry() const {
    return *ComputeRingGeometry(client->slot_count(), client->slot_bytes());
  }
  SlotQueueHeader* submission_queue() {
    return At<SlotQueueHeader>(geometry().submission_offset);
  }
  SlotQueueHeader* completion_queue() {
    return At<SlotQueueHeader>(geometry().completion_offset);
  }
  std::atomic<uint64_t>* submission_entries() {
    return At<std::atomic<uint64_t>>(geometry().submission_offset +
                                     sizeof(SlotQueueHeader));
  }
  SlotHeader* shared_header(uint32_t index) {
    return At<SlotHeader>(geometry().slots_offset +
                          geometry().slot_stride * index);
  }
  // Answers slot entry & 0xffffffff like a worker that does not use
  // SlotRingServer.
  void PushCompletion(uint64_t entry) {
    SlotQueue(region.data() + geometry().completion_offset,
              geometry().queue_capacity, client->descriptors()[2])
        .Push(entry);
  }
  void RingDaemon() {
    const uint64_t one = 1;
    if (::write(client->descriptors()[2], &one, sizeof(one)) < 0) std::abort();
  }

  // Answers `count` requests with twice their input.
  void ServeDoubling(int count) {
    while (count > 0) {
      server->Wait(-1, absl::Seconds(30));
      while (auto request = server->Next()) {
        float value = 0;
        std::memcpy(&value, request->payload.data(), sizeof(value));
        value *= 2;
        std::memcpy(request->payload.data() + 64, &value, sizeof(value));
        request->header.compute_nanos = 7;
        server->Complete(*request, absl::OkStatus());
        --count;
      }
    }
  }

 private:
  template <typename T>
  T* At(uint64_t offset) {
    return reinterpret_cast<T*>(region.data() + offset);
  }
};

}  // namespace gpupool::server::testing_ring
