// NonMaxSuppression, which is computed at import: the number of selected boxes
// depends on their numbers.
#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

struct Box {
  double y1, x1, y2, x2;  // y1 <= y2 and x1 <= x2

  double area() const { return (y2 - y1) * (x2 - x1); }
};

double IntersectionOverUnion(const Box& a, const Box& b) {
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0) return 0;
  const double common = height * width;
  return common / (a.area() + b.area() - common);
}

// Reads a box from four numbers: two corners in any order, or centre, width and
// height.
Box ReadBox(const double* numbers, bool centre) {
  if (centre) {
    const double half_width = numbers[2] / 2;
    const double half_height = numbers[3] / 2;
    return {numbers[1] - half_height, numbers[0] - half_width,
            numbers[1] + half_height, numbers[0] + half_width};
  }
  return {std::min(numbers[0], numbers[2]), std::min(numbers[1], numbers[3]),
          std::max(numbers[0], numbers[2]), std::max(numbers[1], numbers[3])};
}

struct Suppression {
  int64_t most = 0;  // boxes per class
  double overlap = 0;
  double score = 0;
  bool has_score = false;
};

// Returns the positions of the boxes that are selected, best first.
std::vector<size_t> Keep(const std::vector<Box>& boxes, const double* scores,
                         const Suppression& rule) {
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Stable, so that equal scores keep their order.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<size_t> kept;
  for (size_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= rule.most) break;
    if (rule.has_score && !(scores[i] > rule.score)) continue;
    const auto overlaps = [&](size_t k) {
      return IntersectionOverUnion(boxes[i], boxes[k]) > rule.overlap;
    };
    if (std::none_of(kept.begin(), kept.end(), overlaps)) kept.push_back(i);
  }
  return kept;
}

absl::StatusOr<Suppression> ReadRule(NodeContext& ctx) {
  Suppression rule;
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(rule.most, KnownInt(ctx, 2, "the number of boxes"));
  }
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(rule.overlap, KnownFloat(ctx, 3, "the overlap"));
  }
  if (ctx.has_input(4)) {
    ASSIGN_OR_RETURN(rule.score, KnownFloat(ctx, 4, "the lowest score"));
    rule.has_score = true;
  }
  return rule;
}

// Most comparisons of boxes for one node.
constexpr int64_t kMaxComparisons = int64_t{1} << 31;

absl::Status CheckSizes(NodeContext& ctx, const Shape& boxes,
                        const Shape& scores, const Suppression& rule) {
  if (boxes.rank() != 3 || boxes[2] != 4 || scores.rank() != 3 ||
      scores[0] != boxes[0] || scores[2] != boxes[1]) {
    return ctx.Refuse("boxes ", boxes.ToString(),
                      " must be [batch, boxes, 4] and scores ",
                      scores.ToString(), " [batch, classes, boxes]");
  }
  const int64_t kept = std::clamp<int64_t>(rule.most, 0, boxes[1]);
  if (kept > 0 && scores.elements() > kMaxComparisons / kept) {
    return ctx.Refuse("keeping ", kept, " boxes of each class of scores ",
                      scores.ToString(), " is over the limit of ",
                      kMaxComparisons, " comparisons");
  }
  absl::Status spent =
      ctx.importer().values().Spend(scores.elements() * (kept + 1));
  return spent.ok() ? spent : ctx.Refuse(spent.message());
}

absl::Status LowerNonMaxSuppression(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const HostTensor boxes, ctx.Known(0, "the boxes"));
  ASSIGN_OR_RETURN(const HostTensor scores, ctx.Known(1, "the scores"));
  ASSIGN_OR_RETURN(const Suppression rule, ReadRule(ctx));
  ASSIGN_OR_RETURN(const int64_t centre, ctx.Int("center_point_box", 0));
  RETURN_IF_ERROR(CheckSizes(ctx, boxes.shape, scores.shape, rule));
  const auto count = static_cast<size_t>(boxes.shape[1]);
  HostTensor selected{DType::kInt64, {}, {}};
  for (int64_t image = 0; image < scores.shape[0]; ++image) {
    std::vector<Box> of_image;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = (static_cast<size_t>(image) * count + i) * 4;
      of_image.push_back(ReadBox(&boxes.numbers[at], centre != 0));
    }
    for (int64_t label = 0; label < scores.shape[1]; ++label) {
      const auto row = static_cast<size_t>(image * scores.shape[1] + label);
      for (size_t i :
           Keep(of_image, scores.numbers.data() + row * count, rule)) {
        selected.numbers.insert(
            selected.numbers.end(),
            {static_cast<double>(image), static_cast<double>(label),
             static_cast<double>(i)});
      }
    }
  }
  ASSIGN_OR_RETURN(
      selected.shape,
      MakeShape(ctx, {static_cast<int64_t>(selected.numbers.size()) / 3, 3}));
  ctx.Set(0, ctx.Constant(std::move(selected)));
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OperatorEntry> DetectionOperators() {
  static const OperatorEntry rows[] = {
      {"", "NonMaxSuppression", "selection", OperatorNeeds::kNumbers,
       LowerNonMaxSuppression},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
