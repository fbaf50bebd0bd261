// Walks of rows through trees. Sixteen walks go on at once, so that their loads
// overlap: of sixteen rows through one tree, or of one row through sixteen
// trees.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Walks that go on together.
constexpr int kLanes = 16;
// Rows whose numbers stay in the cache while they walk all trees.
constexpr int64_t kBlockRows = 4 * kLanes;
// Operations of a product that take about as long as one step.
constexpr uint64_t kStepFlops = 100;

struct WalkPlan {
  int64_t rows = 0, cells = 0, slots = 0, trees = 0, levels = 0;
  int threads = 1;
};

// All that a step needs to know of a slot. Places in the table are in bytes and
// columns are multiplied by kLanes already, so that a step need not do that.
template <typename T>
struct Slot {
  T threshold;
  uint32_t column;       // + 1 if NaN counts as smaller
  uint32_t children[2];  // places of larger and of smaller numbers
};

// The table has a line for its facts, then the slots.
struct TableFacts {
  bool any_missing;  // whether NaN counts as smaller in some slot
};
constexpr uint64_t kFactBytes = kAlignmentBytes;

absl::Status CheckRange(absl::string_view what, int64_t index, int64_t count) {
  if (index >= 0 && index < count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the ", what, " ", index, " of a tree is not in 0 .. ", count - 1));
}

template <typename T>
class TreeWalkKernel : public Kernel {
 public:
  TreeWalkKernel(const WalkPlan& plan, bool stable)
      : plan_(plan), stable_(stable) {}

  // The workspace has the turned rows of each thread, then the table.
  uint64_t workspace_bytes() const override {
    return static_cast<uint64_t>(plan_.threads) * block_bytes() +
           (stable_ ? 0 : table_bytes());
  }
  uint64_t resident_bytes() const override {
    return stable_ ? table_bytes() : 0;
  }
  std::string resident_format() const override {
    return absl::StrCat("tree_walk/", plan_.cells);
  }
  absl::Status Bind(const KernelBuffers& buffers) override {
    buffers_ = buffers;
    std::byte* table =
        stable_ ? buffers.resident
                : buffers.workspace + workspace_bytes() - table_bytes();
    facts_ = reinterpret_cast<TableFacts*>(table);
    slots_ = table + kFactBytes;
    return absl::OkStatus();
  }
  absl::Status Prepare() override {
    return stable_ ? Pack() : absl::OkStatus();
  }
  absl::Status Run() override {
    if (!stable_) RETURN_IF_ERROR(Pack());
    ParallelParts(
        plan_.threads, plan_.rows, kLanes,
        [this](int part, int64_t begin, int64_t end) {
          auto* turned = reinterpret_cast<T*>(
              buffers_.workspace + static_cast<uint64_t>(part) * block_bytes());
          for (int64_t row = begin; row < end; row += kBlockRows) {
            WalkBlock(row, std::min(end, row + kBlockRows), turned);
          }
        });
    return absl::OkStatus();
  }

 private:
  uint64_t table_bytes() const {
    return kFactBytes +
           AlignUp(static_cast<uint64_t>(plan_.slots) * sizeof(Slot<T>));
  }
  // One row alone takes the space of kLanes.
  uint64_t block_bytes() const {
    const int64_t rows = std::clamp<int64_t>(plan_.rows, kLanes, kBlockRows);
    return AlignUp(static_cast<uint64_t>(rows * plan_.cells) * sizeof(T));
  }
  template <typename U>
  const U* in(size_t i) const {
    return reinterpret_cast<const U*>(buffers_.inputs[i]);
  }
  // Returns the slots of the result.
  uint32_t* y() const {
    return reinterpret_cast<uint32_t*>(buffers_.outputs[0]);
  }
  static uint32_t PlaceOf(int32_t slot) {
    return static_cast<uint32_t>(slot) * uint32_t{sizeof(Slot<T>)};
  }

  // Writes the table of slots. Walks do not check it again.
  absl::Status Pack();
  // Walks rows [begin, end), of which there are at most kBlockRows, through all
  // trees.
  void WalkBlock(int64_t begin, int64_t end, T* turned) const;
  // Walks on from the slots at `places`. Number `column` of lane i is
  // numbers[column * kLanes + i].
  template <bool kMissing>
  void Walk(const T* numbers, uint32_t* places) const;
  // Walks to the end and turns places into slots.
  void WalkLanes(const T* numbers, uint32_t* places) const {
    if (facts_->any_missing) {
      Walk<true>(numbers, places);
    } else {
      Walk<false>(numbers, places);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      places[lane] /= uint32_t{sizeof(Slot<T>)};
    }
  }
  // Walks kLanes rows through one tree.
  void WalkRows(int64_t first, int64_t tree, const T* numbers) const;
  void WalkOneRow(int64_t row, T* numbers) const;

  const WalkPlan plan_;
  const bool stable_;
  KernelBuffers buffers_;
  TableFacts* facts_ = nullptr;
  std::byte* slots_ = nullptr;
};

template <typename T>
absl::Status TreeWalkKernel<T>::Pack() {
  facts_->any_missing = false;
  for (int64_t i = 0; i < plan_.slots; ++i) {
    const int32_t given = in<int32_t>(1)[i];
    const bool missing = given < 0;
    const int32_t column = missing ? ~given : given;
    RETURN_IF_ERROR(CheckRange("column", column, plan_.cells));
    facts_->any_missing = facts_->any_missing || missing;
    Slot<T> slot{.threshold = in<T>(2)[i],
                 .column = static_cast<uint32_t>(column * kLanes + missing)};
    for (int side = 0; side < 2; ++side) {
      const int32_t child = in<int32_t>(side == 0 ? 3 : 4)[i];
      RETURN_IF_ERROR(CheckRange("slot", child, plan_.slots));
      slot.children[side] = PlaceOf(child);
    }
    reinterpret_cast<Slot<T>*>(slots_)[i] = slot;
  }
  for (int64_t tree = 0; tree < plan_.trees; ++tree) {
    RETURN_IF_ERROR(CheckRange("root", in<int32_t>(5)[tree], plan_.slots));
  }
  return absl::OkStatus();
}

template <typename T>
template <bool kMissing>
void TreeWalkKernel<T>::Walk(const T* numbers, uint32_t* places) const {
  uint32_t moved = 1;
  for (int64_t level = 0; level < plan_.levels && moved != 0; ++level) {
    moved = 0;
#pragma GCC unroll 16
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto& slot =
          *reinterpret_cast<const Slot<T>*>(slots_ + places[lane]);
      const uint32_t missing = kMissing ? slot.column % kLanes : 0;
      const T number = numbers[size_t{slot.column - missing} + lane];
      uint32_t smaller = number <= slot.threshold ? 1 : 0;
      if (kMissing) smaller |= missing & (number != number ? 1 : 0);
      const uint32_t next = slot.children[smaller];
      moved |= next ^ places[lane];
      places[lane] = next;
    }
  }
}

template <typename T>
void TreeWalkKernel<T>::WalkRows(int64_t first, int64_t tree,
                                 const T* numbers) const {
  uint32_t places[kLanes];
  std::fill_n(places, kLanes, PlaceOf(in<int32_t>(5)[tree]));
  WalkLanes(numbers, places);
  for (int lane = 0; lane < kLanes; ++lane) {
    y()[(first + lane) * plan_.trees + tree] = places[lane];
  }
}

template <typename T>
void TreeWalkKernel<T>::WalkOneRow(int64_t row, T* numbers) const {
  for (int64_t cell = 0; cell < plan_.cells; ++cell) {
    std::fill_n(numbers + cell * kLanes, kLanes,
                in<T>(0)[row * plan_.cells + cell]);
  }
  for (int64_t tree = 0; tree < plan_.trees; tree += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, plan_.trees - tree);
    uint32_t places[kLanes] = {};
    for (int64_t lane = 0; lane < count; ++lane) {
      places[lane] = PlaceOf(in<int32_t>(5)[tree + lane]);
    }
    WalkLanes(numbers, places);
    std::copy_n(places, count, y() + row * plan_.trees + tree);
  }
}

template <typename T>
void TreeWalkKernel<T>::WalkBlock(int64_t begin, int64_t end, T* turned) const {
  const auto* x = in<T>(0);
  const int64_t groups = (end - begin) / kLanes;
  for (int64_t row = begin; row < begin + groups * kLanes; ++row) {
    T* to = turned + (row - begin) / kLanes * kLanes * plan_.cells +
            (row - begin) % kLanes;
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      to[cell * kLanes] = x[row * plan_.cells + cell];
    }
  }
  // A tree stays in the cache for all rows of the block.
  for (int64_t tree = 0; tree < plan_.trees; ++tree) {
    for (int64_t group = 0; group < groups; ++group) {
      WalkRows(begin + group * kLanes, tree,
               turned + group * kLanes * plan_.cells);
    }
  }
  for (int64_t row = begin + groups * kLanes; row < end; ++row) {
    WalkOneRow(row, turned);
  }
}

}  // namespace

KernelOr MakeTreeWalk(const CompileRequest& request,
                      const CpuContext& context) {
  const Value& x = InputOf(request, 0);
  WalkPlan plan{.rows = x.shape[0],
                .cells = x.shape[1],
                .slots = InputOf(request, 1).shape[0],
                .trees = OutputOf(request, 0).shape[1],
                .levels = request.node.get<TreeWalkAttributes>().levels};
  // Places are counted in 32 bits.
  constexpr int64_t kMostSlots = INT32_MAX / sizeof(Slot<double>);
  if (plan.slots > kMostSlots || plan.cells > INT32_MAX / kLanes) {
    return nullptr;
  }
  plan.threads = context.ThreadsForFlops(
      kStepFlops * NodeFlops(request.graph, request.node));
  const bool stable = std::all_of(request.stable_inputs.begin() + 1,
                                  request.stable_inputs.end(),
                                  [](bool is_stable) { return is_stable; });
  if (x.dtype == DType::kFloat32) {
    return std::make_unique<TreeWalkKernel<float>>(plan, stable);
  }
  if (x.dtype == DType::kFloat64) {
    return std::make_unique<TreeWalkKernel<double>>(plan, stable);
  }
  return nullptr;
}

}  // namespace gpupool::engine
