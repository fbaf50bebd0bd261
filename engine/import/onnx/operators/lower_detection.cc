// NonMaxSuppression, which the host computes: the number of selected boxes
// depends on their numbers.
#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/graph/stages.h"

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

// The inputs of a node: boxes and scores, then those of the others that it has.
struct Inputs {
  std::vector<HostOperand> operands;
  int most = -1, overlap = -1, score = -1;  // positions in `operands`
};

Inputs InputsOf(const NodeContext& ctx) {
  Inputs inputs{.operands = {{0, "the boxes"}, {1, "the scores"}}};
  const auto add = [&](int input, absl::string_view what, int& position) {
    if (!ctx.has_input(input)) return;
    position = static_cast<int>(inputs.operands.size());
    inputs.operands.push_back({input, what});
  };
  add(2, "the number of boxes", inputs.most);
  add(3, "the overlap", inputs.overlap);
  add(4, "the lowest score", inputs.score);
  return inputs;
}

absl::StatusOr<Suppression> ReadRule(const std::vector<HostTensor>& operands,
                                     const Inputs& inputs) {
  const auto number = [&](int position) -> absl::StatusOr<const HostTensor*> {
    const HostTensor& tensor = operands[static_cast<size_t>(position)];
    if (tensor.numbers.size() == 1) return &tensor;
    return absl::InvalidArgumentError(
        absl::StrCat(inputs.operands[static_cast<size_t>(position)].what,
                     " must be one number, not ", tensor.shape.ToString()));
  };
  Suppression rule;
  if (inputs.most >= 0) {
    ASSIGN_OR_RETURN(const HostTensor* most, number(inputs.most));
    rule.most = most->Integers()[0];
  }
  if (inputs.overlap >= 0) {
    ASSIGN_OR_RETURN(const HostTensor* overlap, number(inputs.overlap));
    rule.overlap = overlap->numbers[0];
  }
  if (inputs.score >= 0) {
    ASSIGN_OR_RETURN(const HostTensor* score, number(inputs.score));
    rule.score = score->numbers[0];
    rule.has_score = true;
  }
  return rule;
}

// Most comparisons of boxes for one node.
constexpr int64_t kMaxComparisons = int64_t{1} << 31;

// Returns the most boxes of a class.
absl::StatusOr<int64_t> CheckSizes(NodeContext& ctx, const Shape& boxes,
                                   const Shape& scores) {
  if (boxes.rank() != 3 || boxes[2] != 4 || scores.rank() != 3 ||
      scores[0] != boxes[0] || scores[2] != boxes[1]) {
    return ctx.Refuse("boxes ", boxes.ToString(),
                      " must be [batch, boxes, 4] and scores ",
                      scores.ToString(), " [batch, classes, boxes]");
  }
  int64_t kept = ctx.has_input(2) ? boxes[1] : 0;
  if (ctx.IsKnown(2)) {
    ASSIGN_OR_RETURN(const int64_t most,
                     KnownInt(ctx, 2, "the number of boxes"));
    kept = std::clamp<int64_t>(most, 0, boxes[1]);
  }
  if (kept > 0 && scores.elements() > kMaxComparisons / kept) {
    return ctx.Refuse("keeping ", kept, " boxes of each class of scores ",
                      scores.ToString(), " is over the limit of ",
                      kMaxComparisons, " comparisons");
  }
  if (!ctx.IsKnown(0) || !ctx.IsKnown(1)) return kept;
  absl::Status spent =
      ctx.importer().values().Spend(scores.elements() * (kept + 1));
  if (!spent.ok()) return ctx.Refuse(spent.message());
  return kept;
}

// Returns batch, class and position of each box that is selected.
absl::StatusOr<HostCall::Results> Select(const HostTensor& boxes,
                                         const HostTensor& scores, bool centre,
                                         const Suppression& rule) {
  const auto count = static_cast<size_t>(boxes.shape[1]);
  HostTensor selected{DType::kInt64, {}, {}};
  for (int64_t image = 0; image < scores.shape[0]; ++image) {
    std::vector<Box> of_image;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = (static_cast<size_t>(image) * count + i) * 4;
      of_image.push_back(ReadBox(&boxes.numbers[at], centre));
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
  const auto rows = static_cast<int64_t>(selected.numbers.size() / 3);
  ASSIGN_OR_RETURN(selected.shape, Shape::CreateMaybeEmpty({rows, 3}));
  return HostCall::Results{rows, {std::move(selected)}};
}

absl::Status LowerNonMaxSuppression(NodeContext& ctx) {
  const Inputs inputs = InputsOf(ctx);
  ASSIGN_OR_RETURN(const Shape boxes, OperandShape(ctx, inputs.operands[0]));
  ASSIGN_OR_RETURN(const Shape scores, OperandShape(ctx, inputs.operands[1]));
  ASSIGN_OR_RETURN(const int64_t centre, ctx.Int("center_point_box", 0));
  ASSIGN_OR_RETURN(const int64_t kept, CheckSizes(ctx, boxes, scores));
  HostCall call;
  // At most the number of scores.
  call.most_rows = scores[0] * scores[1] * kept;
  RETURN_IF_ERROR(MakeShape(ctx, {call.most_rows, 3}).status());
  call.types = [](int64_t rows) {
    return std::vector<TensorType>{{DType::kInt64, SmallerShape({rows, 3})}};
  };
  call.run = [=](const std::vector<HostTensor>& operands)
      -> absl::StatusOr<HostCall::Results> {
    ASSIGN_OR_RETURN(const Suppression rule, ReadRule(operands, inputs));
    return Select(operands[0], operands[1], centre != 0, rule);
  };
  ASSIGN_OR_RETURN(const ValueIds selected,
                   ComputeOnHost(ctx, inputs.operands, call));
  ctx.Set(0, selected[0]);
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
