#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/image/image_functors.h"
#include "engine/backends/portable/image/image_makers.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/base/align.h"

namespace gpupool::engine::portable {
namespace {

// A sparse matrix by rows (compressed sparse rows). Row o adds up a result
// cell.
struct MapTable {
  std::vector<int32_t> first;
  std::vector<int32_t> cells;
  std::vector<double> weights;
};

// One entry of the matrix. A weight of 0 means that the source has no part,
// even if it is NaN or infinite, so such taps are left out.
struct Tap {
  int64_t result, source;
  double weight;
};
// Builds the table by a counting sort of the taps by result. Taps of one result
// keep their order.
MapTable TableOf(int64_t results, const std::vector<Tap>& taps) {
  MapTable table;
  table.first.assign(static_cast<size_t>(results) + 1, 0);
  for (const Tap& tap : taps)
    ++table.first[static_cast<size_t>(tap.result) + 1];
  for (size_t r = 1; r < table.first.size(); ++r) {
    table.first[r] += table.first[r - 1];
  }
  std::vector<int32_t> next(table.first.begin(), table.first.end() - 1);
  table.cells.resize(taps.size());
  table.weights.resize(taps.size());
  for (const Tap& tap : taps) {
    const auto at =
        static_cast<size_t>(next[static_cast<size_t>(tap.result)]++);
    table.cells[at] = static_cast<int32_t>(tap.source);
    table.weights[at] = tap.weight;
  }
  return table;
}

// Returns the map along an axis, or its transpose for gradients.
MapTable TableOf(const ResizeAxis& axis, bool transposed, int64_t input) {
  std::vector<Tap> taps;
  for (int64_t o = 0; o < axis.size; ++o) {
    for (int t = 0; t < axis.taps; ++t) {
      const auto at = static_cast<size_t>(o * axis.taps + t);
      if (axis.weights[at] == 0) continue;
      const int64_t cell = axis.indices[at];
      taps.push_back(transposed ? Tap{cell, o, axis.weights[at]}
                                : Tap{o, cell, axis.weights[at]});
    }
  }
  return TableOf(transposed ? input : axis.size, taps);
}

// All tables as bytes, with the offsets of each.
struct TableBytes {
  std::vector<uint8_t> bytes;
  struct Offsets {
    size_t first, cells, weights;
  };
  std::vector<Offsets> offsets;  // by table

  template <typename Number>
  size_t Append(const std::vector<Number>& numbers) {
    const size_t at = AlignUp(bytes.size());
    bytes.resize(at + numbers.size() * sizeof(Number));
    if (!numbers.empty()) {
      std::memcpy(bytes.data() + at, numbers.data(),
                  numbers.size() * sizeof(Number));
    }
    return at;
  }
  void Append(const MapTable& table) {
    const size_t first = Append(table.first);
    const size_t cells = Append(table.cells);
    offsets.push_back({first, cells, Append(table.weights)});
  }
};

template <typename T>
class ResizeKernel : public Kernel {
 public:
  ResizeKernel(TableBytes tables, const ResizeFunctor<T>& functor,
               int64_t count, LaunchStream stream)
      : tables_(std::move(tables)),
        functor_(functor),
        count_(count),
        stream_(stream) {}

  uint64_t resident_bytes() const override { return tables_.bytes.size(); }

  absl::Status Bind(const KernelBuffers& buffers) override {
    tables_at_ = reinterpret_cast<uint8_t*>(buffers.resident);
    functor_.x = reinterpret_cast<const T*>(buffers.inputs[0]);
    functor_.y = reinterpret_cast<T*>(buffers.outputs[0]);
    for (size_t m = 0; m < tables_.offsets.size(); ++m) {
      const auto& at = tables_.offsets[m];
      AxisMap& map = functor_.maps[m];
      map.first = reinterpret_cast<const int32_t*>(tables_at_ + at.first);
      map.cells = reinterpret_cast<const int32_t*>(tables_at_ + at.cells);
      map.weights = reinterpret_cast<const double*>(tables_at_ + at.weights);
    }
    return absl::OkStatus();
  }

  absl::Status Prepare() override {
    const size_t all = tables_.bytes.size();
    // The tables travel as arguments of launches, which needs no copy from the
    // host and so may run inside a capture.
    for (size_t begin = 0; begin < all; begin += TableFunctor::kMostBytes) {
      const size_t here =
          std::min<size_t>(all - begin, TableFunctor::kMostBytes);
      TableFunctor piece{};
      std::memcpy(piece.bytes, tables_.bytes.data() + begin, here);
      piece.to = tables_at_ + begin;
      LaunchFor(stream_, static_cast<int64_t>(here), piece);
    }
    return absl::OkStatus();
  }

  absl::Status Run() override {
    LaunchFor(stream_, count_, functor_);
    return absl::OkStatus();
  }

 private:
  TableBytes tables_;
  ResizeFunctor<T> functor_;
  int64_t count_;
  LaunchStream stream_;
  uint8_t* tables_at_ = nullptr;
};

template <typename T>
std::unique_ptr<Kernel> MakeResizeOf(const CompileRequest& request,
                                     const ResizeAttributes& resize,
                                     bool gradient, LaunchStream stream) {
  const Value& x = InputOf(request, 0);
  const Value& y = OutputOf(request, 0);
  const auto strides = MemoryStrides(x.shape, x.layout);
  ResizeFunctor<T> functor{};
  std::vector<int64_t> sizes;
  std::vector<int> loop_of(static_cast<size_t>(y.shape.rank()));
  for (const int axis : MemoryOrder(y.shape.rank(), y.layout)) {
    loop_of[static_cast<size_t>(axis)] = static_cast<int>(sizes.size());
    functor.source_strides[sizes.size()] = strides[static_cast<size_t>(axis)];
    sizes.push_back(y.shape[axis]);
  }
  functor.grid = GridOf(sizes);
  TableBytes tables;
  for (const ResizeAxis& axis : resize.axes) {
    AxisMap& map = functor.maps[functor.map_count++];
    map.axis = loop_of[static_cast<size_t>(axis.axis)];
    map.source_stride = strides[static_cast<size_t>(axis.axis)];
    // The map replaces the stride of its axis.
    functor.source_strides[map.axis] = 0;
    tables.Append(TableOf(axis, gradient, y.shape[axis.axis]));
  }
  return std::make_unique<ResizeKernel<T>>(std::move(tables), functor,
                                           y.shape.elements(), stream);
}

}  // namespace

KernelOr MakeResize(const CompileRequest& request,
                    const PortableContext& context) {
  const bool gradient = request.node.op == Op::kResizeGrad;
  const ResizeAttributes& resize =
      gradient ? request.node.get<ResizeGradAttributes>().resize
               : request.node.get<ResizeAttributes>();
  for (const ResizeAxis& axis : resize.axes) {
    if (axis.indices.size() <= size_t{std::numeric_limits<int32_t>::max()}) {
      continue;
    }
    return absl::UnimplementedError(absl::StrCat(
        "'", request.node.source, "' resizes axis ", axis.axis, " with ",
        axis.indices.size(), " weights; at most 2^31 - 1 are supported"));
  }
  return ForFloating(InputOf(request, 0).dtype, [&](auto tag) {
    return MakeResizeOf<typename decltype(tag)::Type>(request, resize, gradient,
                                                      context.stream);
  });
}

}  // namespace gpupool::engine::portable
