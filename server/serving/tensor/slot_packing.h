// Layout of one batch's tensors in a slot's payload: inputs first, then
// outputs, in the model's order, each 64-byte aligned. Tensors are in HeldType
// of their formats' types.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "server/ipc/slot_layout.h"
#include "server/serving/tensor/tensor_view.h"

namespace gpupool::server {

// Formats of a model's tensors. Borrowed.
struct SlotFormats {
  absl::Span<const TensorFormat> inputs;   // 1 .. kMaxSlotTensors
  absl::Span<const TensorFormat> outputs;  // 1 .. kMaxSlotTensors
  // Sizes of the dimensions of several sizes; empty: the largest.
  absl::Span<const int64_t> sizes = {};
};

// Returns the maximum number of rows of a batch in `slot_bytes`, at most
// `limit`. 0: not even one fits.
uint32_t RowsPerSlot(const SlotFormats& formats, uint64_t slot_bytes,
                     uint32_t limit);

// Returns the bytes of a batch in a payload. `rows` must be at most 2^20.
uint64_t PackedBytes(const SlotFormats& formats, uint32_t rows);

// Fills in version, rows and tensors. `rows` must fit by RowsPerSlot.
void PackHeader(const SlotFormats& formats, uint64_t version_id, uint32_t rows,
                SlotHeader* header);

// Contents of a slot. Borrowed.
struct SlotContents {
  const SlotHeader& header;
  absl::Span<std::byte> payload;
};

// Copies one request's rows behind those already there, in the type of slots
// and padded to the served sizes. The header must be PackHeader's for `formats`
// with these sizes, and `first_row` + inputs.rows <= header.rows.
void CopyRows(const SlotFormats& formats, const CheckedInputs& inputs,
              uint32_t first_row, const SlotContents& slot);

}  // namespace gpupool::server
