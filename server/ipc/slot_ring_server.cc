#include "server/ipc/slot_ring_server.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

// Returns the geometry by the region's header. Checks that the region is large
// enough, so that no slot lies outside.
absl::StatusOr<RingGeometry> ReadGeometry(const MemoryRegion& region) {
  RingHeader header;
  if (region.bytes() < sizeof(header)) {
    return absl::InvalidArgumentError("the slot ring has no room for a header");
  }
  // The copy cannot change between its check and its use.
  std::memcpy(&header, region.data(), sizeof(header));
  if (header.magic != kRingMagic || header.version != kRingVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("the memory received is no slot ring of version ",
                     kRingVersion, " (it says ", header.version, ")"));
  }
  ASSIGN_OR_RETURN(RingGeometry geometry,
                   ComputeRingGeometry(header.slot_count, header.slot_bytes));
  if (geometry.region_bytes > region.bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ring of ", header.slot_count, " slots of ",
                     header.slot_bytes, " bytes needs ", geometry.region_bytes,
                     " bytes; the region has ", region.bytes()));
  }
  return geometry;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SlotRingServer>> SlotRingServer::Attach(
    UniqueFd region_fd, UniqueFd worker_bell, UniqueFd daemon_bell) {
  ASSIGN_OR_RETURN(MemoryRegion region,
                   MemoryRegion::Attach(std::move(region_fd)));
  ASSIGN_OR_RETURN(const RingGeometry geometry, ReadGeometry(region));
  return std::unique_ptr<SlotRingServer>(
      new SlotRingServer(std::move(region), geometry, std::move(worker_bell),
                         std::move(daemon_bell)));
}

SlotRingServer::SlotRingServer(MemoryRegion region,
                               const RingGeometry& geometry,
                               UniqueFd worker_bell, UniqueFd daemon_bell)
    : region_(std::move(region)),
      geometry_(geometry),
      worker_bell_(std::move(worker_bell)),
      daemon_bell_(std::move(daemon_bell)),
      submissions_(region_.data() + geometry.submission_offset,
                   geometry.queue_capacity, worker_bell_.get()),
      completions_(region_.data() + geometry.completion_offset,
                   geometry.queue_capacity, daemon_bell_.get()) {}

std::optional<SlotRequest> SlotRingServer::Next() {
  while (!broken_) {
    const SlotQueue::Ready ready = submissions_.Look();
    if (ready == SlotQueue::Ready::kEmpty) return std::nullopt;
    if (ready == SlotQueue::Ready::kCorrupt) {
      broken_ = true;
      return std::nullopt;
    }
    const uint64_t entry = submissions_.Pop();
    SlotRequest request;
    request.index = static_cast<uint32_t>(entry);
    if (request.index >= geometry_.slot_count) {
      ++refused_;  // no slot to answer in
      continue;
    }
    std::byte* const slot = SlotAddress(request.index);
    // Copy before the check, since the other side may change the shared header
    // at any time.
    CopySlotRequest(*reinterpret_cast<const SlotHeader*>(slot),
                    &request.header);
    // The upper half of an entry is the number of the request, and the lower
    // half is the slot.
    request.header.sequence = entry >> 32;
    const absl::Status status =
        CheckSlotHeader(request.header, geometry_.slot_bytes);
    if (!status.ok()) {
      ++refused_;
      Complete(request, status);
      continue;
    }
    request.payload = {slot + geometry_.payload_offset, geometry_.slot_bytes};
    request.seen = absl::Now();
    return request;
  }
  return std::nullopt;
}

bool SlotRingServer::HasRequests() const {
  return !broken_ && submissions_.Look() == SlotQueue::Ready::kEntry;
}

// Writes only the worker's part of the header. The completion is pushed last,
// which publishes all of it.
void SlotRingServer::Complete(const SlotRequest& request,
                              const absl::Status& status) {
  auto* const shared =
      reinterpret_cast<SlotHeader*>(SlotAddress(request.index));
  SlotHeader answer;
  CopySlotAnswer(request.header, request.header.output_count, &answer);
  answer.code = static_cast<int32_t>(status.code());
  const absl::string_view text = status.message();
  // The text is cut off to leave a byte for its end.
  const size_t length = std::min(text.size(), sizeof(answer.error) - 1);
  if (length > 0) std::memcpy(answer.error, text.data(), length);
  answer.error[length] = '\0';
  CopySlotAnswer(answer, request.header.output_count, shared);
  completions_.Push((request.header.sequence << 32) | request.index);
}

void SlotRingServer::Wait(int wake_fd, absl::Duration timeout) {
  submissions_.Wait(wake_fd, timeout);
}

std::byte* SlotRingServer::SlotAddress(uint32_t index) const {
  return region_.data() + geometry_.slots_offset +
         geometry_.slot_stride * index;
}

}  // namespace gpupool::server
