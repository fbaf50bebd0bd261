#include "engine/backends/cuda/driver/xid_catalog.h"

#include <algorithm>
#include <iterator>

namespace gpupool::engine::cuda {
namespace {

struct XidRow {
  uint32_t code;
  FaultClass fault;
  const char* text;
};

// Sorted by code for Find(). The codes are those of NVIDIA's driver.
constexpr XidRow kXidRows[] = {
    {8, FaultClass::kSticky, "the GPU stopped processing; the worker restarts"},
    {11, FaultClass::kSticky, "invalid or corrupted commands"},
    {13, FaultClass::kSticky, "graphics engine exception"},
    {31, FaultClass::kSticky,
     "memory page fault: a kernel read or wrote a bad address"},
    {32, FaultClass::kSticky, "invalid or corrupted commands"},
    {39, FaultClass::kSticky, "copy engine exception"},
    {41, FaultClass::kSticky, "invalid access; the worker restarts"},
    {43, FaultClass::kNone, "the GPU stopped processing a channel"},
    {45, FaultClass::kSticky, "work was cut off by another error"},
    {46, FaultClass::kQuarantine, "the GPU stopped; drain it and reset it"},
    {48, FaultClass::kQuarantine,
     "double-bit ECC error; drain the GPU and reset it"},
    {62, FaultClass::kQuarantine,
     "the GPU's micro-controller halted; reset the GPU"},
    {63, FaultClass::kNone, "memory row remapped or page retired"},
    {64, FaultClass::kQuarantine,
     "a memory row could not be remapped; reset the GPU"},
    {68, FaultClass::kSticky, "video decoder exception"},
    {69, FaultClass::kSticky, "graphics engine class error"},
    {74, FaultClass::kNone, "NVLink error"},
    {79, FaultClass::kQuarantine,
     "the GPU fell off the bus; start the machine again"},
    {92, FaultClass::kNone, "many correctable memory errors"},
    {kXidContainedError, FaultClass::kSticky, "contained memory error"},
    {95, FaultClass::kQuarantine, "uncontained memory error; reset the GPU"},
    {109, FaultClass::kQuarantine, "context switch timeout; reset the GPU"},
    {110, FaultClass::kQuarantine, "security fault; reset the GPU"},
    {119, FaultClass::kQuarantine,
     "the GPU's system processor does not answer; reset the GPU"},
    {120, FaultClass::kQuarantine,
     "error of the GPU's system processor; reset the GPU"},
    {121, FaultClass::kNone, "corrected error of the chip-to-chip link"},
    {140, FaultClass::kQuarantine, "unrecovered memory error; reset the GPU"},
    {143, FaultClass::kQuarantine,
     "the GPU could not be initialized; reset the GPU"},
    {155, FaultClass::kQuarantine, "NVLink error; reset the GPU"},
    {156, FaultClass::kQuarantine,
     "parts of the GPU are to be retired; reset the GPU"},
    {158, FaultClass::kQuarantine, "fatal timeout; reset the GPU"},
};

const XidRow* Find(uint32_t code) {
  const XidRow* row =
      std::lower_bound(std::begin(kXidRows), std::end(kXidRows), code,
                       [](const XidRow& a, uint32_t b) { return a.code < b; });
  return row != std::end(kXidRows) && row->code == code ? row : nullptr;
}

}  // namespace

FaultClass ClassifyXid(uint32_t code) {
  const XidRow* row = Find(code);
  return row == nullptr ? FaultClass::kNone : row->fault;
}

absl::string_view XidText(uint32_t code) {
  const XidRow* row = Find(code);
  return row == nullptr ? "" : row->text;
}

}  // namespace gpupool::engine::cuda
