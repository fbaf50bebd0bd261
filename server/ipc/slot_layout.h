// The layout of a slot ring in shared memory.
//
//   region     = ring_header submission completion padding slot{slot_count}
//   ring_header= RingHeader                      ; 1 page, written once
//   submission = queue                           ; daemon to worker
//   completion = queue                           ; worker to daemon
//   queue      = SlotQueueHeader entry{capacity} ; capacity: power of two
//   entry      = sequence:32 slot_index:32       ; one atomic 64-bit word
//   slot       = SlotHeader padding payload      ; each starts on a page
//   payload    = slot_bytes bytes                ; tensors, 64-byte aligned
//
// All numbers are in the machine's byte order. Queues and payloads start on a
// page, so that a device driver can pin the payloads.
//
// Shared memory is untrusted input. A reader must copy a header to its own
// memory first, check the copy (CheckSlotHeader) and use only the copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/tensor_limits.h"

namespace gpupool::server {

inline constexpr uint64_t kRingMagic = 0x676e69727470756cULL;
inline constexpr uint32_t kRingVersion = 5;
inline constexpr uint32_t kMaxSlotTensors = 128;
inline constexpr uint32_t kMaxSlotRank = engine::kMaxRank;
inline constexpr uint32_t kMaxSlots = 4096;
inline constexpr uint64_t kMaxSlotBytes = uint64_t{1} << 32;
inline constexpr uint64_t kSlotTensorAlignment = 64;

struct RingHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t slot_count;
  uint64_t slot_bytes;
};

// A tensor inside a slot's payload, dense and row-major.
struct SlotTensor {
  uint32_t data_type;  // gpupool.v1.DataType
  uint32_t rank;       // 0 .. kMaxSlotRank
  int64_t dims[kMaxSlotRank];
  uint64_t offset;  // from the payload's start; multiple of 64
  uint64_t bytes;   // elements * element size
};

// A request to the worker and its answer. The daemon fills in the request,
// including `outputs`: it decides where the results go. The worker writes only
// the answer. Most models have few tensors, so each side copies only those that
// are there (CopySlotRequest).
struct SlotHeader {
  uint64_t sequence;    // set by Submit; never reused within a ring
  uint64_t version_id;  // gpupool.v1.ModelVersion.id
  uint32_t rows;        // rows of the batch; first dimension
  uint32_t input_count;
  uint32_t output_count;
  uint32_t reserved;
  SlotTensor inputs[kMaxSlotTensors];
  SlotTensor outputs[kMaxSlotTensors];
  // ---- the answer
  int64_t compute_nanos;       // inside the engine
  int64_t wait_nanos;          // from seen to compute start
  int32_t code;                // absl::StatusCode
  char error[252];             // NUL-terminated
  uint32_t compiled_programs;  // for this request
  uint32_t evicted_programs;
  // Dimensions of an output that differ from those above. Its bytes are then at
  // most those above.
  uint32_t output_dims[kMaxSlotTensors][kMaxSlotRank];
  // The number of those dimensions plus 1; 0 where they do not differ.
  uint32_t output_ranks[kMaxSlotTensors];
};
static_assert(std::is_trivially_copyable_v<SlotHeader>);
static_assert(sizeof(SlotHeader) <= 32768);

// Copies the request, without tensors beyond input_count and output_count.
// `from` may be shared memory that changes meanwhile: counts are read once, and
// at most kMaxSlotTensors tensors of each kind are copied.
void CopySlotRequest(const SlotHeader& from, SlotHeader* to);
// Copies the answer, with the dimensions of `outputs` outputs, at most
// kMaxSlotTensors. `from` may be shared memory.
void CopySlotAnswer(const SlotHeader& from, uint32_t outputs, SlotHeader* to);

// Returns the bytes of one element of gpupool.v1.DataType `data_type`; 0 when
// unknown.
uint64_t SlotElementBytes(uint32_t data_type);

// Returns OK if every tensor is well-formed and lies inside a payload of
// `slot_bytes`, and no output overlaps another tensor. Otherwise
// InvalidArgument with the tensor, the field, the value and the limit.
absl::Status CheckSlotHeader(const SlotHeader& header, uint64_t slot_bytes);

// Copies the output dimensions of a worker's answer to `header.outputs`, and
// adjusts their bytes. InvalidArgument when an output has more bytes than were
// asked for, or more than kMaxSlotRank dimensions.
absl::Status TakeOutputDims(const SlotHeader& answer, SlotHeader* header);

// Layout of a region. Offsets and sizes are in bytes.
struct RingGeometry {
  uint32_t slot_count = 0;
  uint32_t queue_capacity = 0;
  uint64_t slot_bytes = 0;
  uint64_t submission_offset = 0;
  uint64_t completion_offset = 0;
  uint64_t slots_offset = 0;
  uint64_t slot_stride = 0;
  uint64_t payload_offset = 0;  // within a slot
  uint64_t region_bytes = 0;
};

// Returns the layout. InvalidArgument when slot_count is not in 1 .. kMaxSlots
// or slot_bytes not in 1 .. kMaxSlotBytes.
absl::StatusOr<RingGeometry> ComputeRingGeometry(uint32_t slot_count,
                                                 uint64_t slot_bytes);

}  // namespace gpupool::server
