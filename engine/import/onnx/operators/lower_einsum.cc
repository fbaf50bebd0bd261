// Einsum: takes diagonals and sums of single operands, then multiplies two
// operands at a time, from left to right.
#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/products.h"

namespace gpupool::engine::onnx_import {
namespace {

// A letter, or -1, -2, ... for the axes of an ellipsis counted from its end. So
// ellipses of different ranks align as in broadcasting.
using Label = int;
using Labels = std::vector<Label>;

struct EinsumTerm {
  ValueId value;
  Labels labels;  // one per axis
};

bool Has(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Parses the labels of one operand of that rank. Rank -1 stands for the output,
// whose ellipsis has `dots` axes.
absl::StatusOr<Labels> ParseLabels(const NodeContext& ctx,
                                   absl::string_view text, int rank, int dots) {
  const size_t at = text.find("...");
  const size_t named = text.size() - (at == absl::string_view::npos ? 0 : 3);
  if (rank >= 0) {
    dots = rank - static_cast<int>(std::min<size_t>(named, kMaxRank + 1));
    if (dots < 0 || (at == absl::string_view::npos && dots != 0)) {
      return ctx.Refuse("the term '", std::string(text),
                        "' does not fit an operand of rank ", rank);
    }
  }
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == at) {
      for (int dot = dots; dot >= 1; --dot) labels.push_back(-dot);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      labels.push_back(text[i]);
    } else {
      return ctx.Refuse("the term '", std::string(text), "' has a character ",
                        "that is no letter");
    }
  }
  return labels;
}

struct Equation {
  std::vector<Labels> terms;
  Labels output;
};

// Returns the output of an equation without one: the ellipsis, then the letters
// that occur once, in alphabetical order.
Labels ImplicitOutput(const std::vector<Labels>& terms) {
  // The map sorts by label, and labels of the ellipsis are negative.
  std::map<Label, int> counts;
  for (const Labels& term : terms) {
    for (Label label : term) ++counts[label];
  }
  Labels output;
  for (const auto& [label, count] : counts) {
    if (label < 0 || count == 1) output.push_back(label);
  }
  return output;
}

absl::StatusOr<Equation> ParseEquation(
    const NodeContext& ctx, const std::vector<EinsumTerm>& operands) {
  ASSIGN_OR_RETURN(const std::string given, ctx.String("equation", ""));
  const std::string text = absl::StrReplaceAll(given, {{" ", ""}});
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  const std::vector<std::string> parts = absl::StrSplit(sides[0], ',');
  if (sides.size() > 2 || parts.size() != operands.size()) {
    return ctx.Refuse("the equation '", given, "' does not describe ",
                      operands.size(), " operands");
  }
  Equation equation;
  int dots = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    ASSIGN_OR_RETURN(
        Labels labels,
        ParseLabels(ctx, parts[i], ctx.rank(operands[i].value), 0));
    const auto is_dot = [](Label label) { return label < 0; };
    dots = std::max(dots, static_cast<int>(std::count_if(
                              labels.begin(), labels.end(), is_dot)));
    equation.terms.push_back(std::move(labels));
  }
  if (sides.size() == 1) {
    equation.output = ImplicitOutput(equation.terms);
    return equation;
  }
  ASSIGN_OR_RETURN(equation.output, ParseLabels(ctx, sides[1], -1, dots));
  for (Label label : equation.output) {
    const auto with = [label](const Labels& term) { return Has(term, label); };
    if (std::count(equation.output.begin(), equation.output.end(), label) > 1 ||
        std::none_of(equation.terms.begin(), equation.terms.end(), with)) {
      return ctx.Refuse("the output of '", given,
                        "' repeats a letter or has a new one");
    }
  }
  return equation;
}

absl::StatusOr<ValueId> Permute(NodeContext& ctx, const EinsumTerm& term,
                                const Labels& order) {
  std::vector<int> permutation;
  for (Label label : order) {
    const auto at = std::find(term.labels.begin(), term.labels.end(), label);
    permutation.push_back(static_cast<int>(at - term.labels.begin()));
  }
  return ctx.Transpose(term.value, permutation);
}

// Replaces two axes of one label by their diagonal: reshapes [..., d, d] to
// [..., d * d] and takes every (d + 1)th cell.
absl::StatusOr<EinsumTerm> TakeDiagonal(NodeContext& ctx, EinsumTerm term,
                                        size_t first, size_t second) {
  const Shape shape = ctx.shape(term.value);
  const int64_t size = shape[static_cast<int>(first)];
  if (size != shape[static_cast<int>(second)]) {
    return ctx.Refuse("a repeated letter stands for sizes ", size, " and ",
                      shape[static_cast<int>(second)]);
  }
  std::vector<int> order;
  EinsumTerm result;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (i == first || i == second) continue;
    order.push_back(static_cast<int>(i));
    result.labels.push_back(term.labels[i]);
  }
  order.push_back(static_cast<int>(first));
  order.push_back(static_cast<int>(second));
  result.labels.push_back(term.labels[first]);
  ASSIGN_OR_RETURN(const ValueId last, ctx.Transpose(term.value, order));
  std::vector<int64_t> dims = Dims(ctx.shape(last));
  dims.pop_back();
  dims.back() = size * size;
  ASSIGN_OR_RETURN(const ValueId flat, ctx.Reshape(last, dims));
  ASSIGN_OR_RETURN(result.value,
                   SliceAxis(ctx, flat,
                             {.axis = static_cast<int>(dims.size()) - 1,
                              .size = size,
                              .step = size + 1}));
  return result;
}

absl::StatusOr<EinsumTerm> TakeDiagonals(NodeContext& ctx, EinsumTerm term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    for (size_t j = i + 1; j < term.labels.size(); ++j) {
      if (term.labels[i] != term.labels[j]) continue;
      ASSIGN_OR_RETURN(term, TakeDiagonal(ctx, std::move(term), i, j));
      return TakeDiagonals(ctx, std::move(term));
    }
  }
  return term;
}

// Sums over the labels that are not needed any more.
absl::StatusOr<EinsumTerm> SumOut(NodeContext& ctx, const EinsumTerm& term,
                                  const Labels& needed) {
  EinsumTerm result;
  std::vector<int> axes;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (Has(needed, term.labels[i])) {
      result.labels.push_back(term.labels[i]);
    } else {
      axes.push_back(static_cast<int>(i));
    }
  }
  if (axes.empty()) return term;
  ASSIGN_OR_RETURN(result.value,
                   ctx.Reduce(ReduceFunction::kSum, term.value, axes, false));
  return result;
}

// Repeats axes of 1 to the label's size in the other operand.
absl::StatusOr<EinsumTerm> MatchSizes(NodeContext& ctx, EinsumTerm term,
                                      const EinsumTerm& other) {
  std::vector<int64_t> dims = Dims(ctx.shape(term.value));
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto at =
        std::find(other.labels.begin(), other.labels.end(), term.labels[i]);
    if (at == other.labels.end()) continue;
    const int64_t size =
        ctx.shape(other.value)[static_cast<int>(at - other.labels.begin())];
    if (dims[i] != size && dims[i] != 1 && size != 1) {
      return ctx.Refuse("a letter stands for sizes ", dims[i], " and ", size);
    }
    if (dims[i] == 1) dims[i] = size;
  }
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  ASSIGN_OR_RETURN(term.value, ctx.BroadcastTo(term.value, shape));
  return term;
}

struct Split {
  Labels batch, left, right, summed;
};

Split SplitLabels(const EinsumTerm& a, const EinsumTerm& b,
                  const Labels& needed) {
  Split split;
  for (Label label : a.labels) {
    if (!Has(b.labels, label)) {
      split.left.push_back(label);
    } else if (Has(needed, label)) {
      split.batch.push_back(label);
    } else {
      split.summed.push_back(label);
    }
  }
  for (Label label : b.labels) {
    if (!Has(a.labels, label)) split.right.push_back(label);
  }
  return split;
}

Labels Join(const Labels& a, const Labels& b, const Labels& c) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// Labels of the axes that form the batch, the rows and the columns.
struct MatrixLabels {
  const Labels& batch;
  const Labels& rows;
  const Labels& columns;
};

// Reshapes the term to [batch, rows, columns], or without a batch label to
// [rows, columns].
absl::StatusOr<ValueId> AsMatrices(NodeContext& ctx, const EinsumTerm& term,
                                   const MatrixLabels& labels) {
  ASSIGN_OR_RETURN(
      const ValueId moved,
      Permute(ctx, term, Join(labels.batch, labels.rows, labels.columns)));
  const Shape shape = ctx.shape(moved);
  const int leading = static_cast<int>(labels.batch.size());
  const int middle = leading + static_cast<int>(labels.rows.size());
  std::vector<int64_t> dims = Dims(shape);
  dims.resize(labels.batch.size());
  if (leading > 1) dims = {Product(shape, 0, leading)};
  dims.push_back(Product(shape, leading, middle));
  dims.push_back(Product(shape, middle, shape.rank()));
  return ctx.Reshape(moved, dims);
}

absl::StatusOr<EinsumTerm> Contract(NodeContext& ctx, EinsumTerm a,
                                    EinsumTerm b, const Labels& needed) {
  // Labels of only one operand are summed before the product, which makes it
  // smaller.
  ASSIGN_OR_RETURN(a, SumOut(ctx, a, Join(needed, b.labels, {})));
  ASSIGN_OR_RETURN(b, SumOut(ctx, b, Join(needed, a.labels, {})));
  ASSIGN_OR_RETURN(a, MatchSizes(ctx, std::move(a), b));
  ASSIGN_OR_RETURN(b, MatchSizes(ctx, std::move(b), a));
  const Split split = SplitLabels(a, b, needed);
  EinsumTerm result;
  result.labels = Join(split.batch, split.left, split.right);
  if (result.labels.size() > kMaxRank) {
    return ctx.Refuse("a product of ", result.labels.size(),
                      " letters; the limit is ", kMaxRank);
  }
  std::vector<int64_t> dims;
  for (Label label : result.labels) {
    const EinsumTerm& from = Has(a.labels, label) ? a : b;
    const auto at = std::find(from.labels.begin(), from.labels.end(), label);
    dims.push_back(
        ctx.shape(from.value)[static_cast<int>(at - from.labels.begin())]);
  }
  ASSIGN_OR_RETURN(const ValueId left,
                   AsMatrices(ctx, a, {split.batch, split.left, split.summed}));
  ASSIGN_OR_RETURN(
      const ValueId right,
      AsMatrices(ctx, b, {split.batch, split.summed, split.right}));
  ASSIGN_OR_RETURN(const ValueId y,
                   split.summed.empty()
                       ? ctx.Binary(BinaryFunction::kMultiply, left, right)
                       : MatrixProduct(ctx, left, right));
  ASSIGN_OR_RETURN(result.value, ctx.Reshape(y, dims));
  return result;
}

absl::Status LowerEinsum(NodeContext& ctx) {
  std::vector<EinsumTerm> terms;
  for (int i = 0; i < ctx.input_count(); ++i) {
    ASSIGN_OR_RETURN(const ValueId value, ctx.Input(i));
    terms.push_back({value, {}});
  }
  if (terms.empty()) return ctx.Refuse("needs at least one operand");
  ASSIGN_OR_RETURN(const Equation equation, ParseEquation(ctx, terms));
  for (size_t i = 0; i < terms.size(); ++i) {
    terms[i].labels = equation.terms[i];
    ASSIGN_OR_RETURN(terms[i], TakeDiagonals(ctx, std::move(terms[i])));
  }
  EinsumTerm product = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels needed = equation.output;
    for (size_t j = i + 1; j < terms.size(); ++j) {
      needed = Join(needed, terms[j].labels, {});
    }
    ASSIGN_OR_RETURN(product,
                     Contract(ctx, std::move(product), terms[i], needed));
  }
  ASSIGN_OR_RETURN(product, SumOut(ctx, product, equation.output));
  return Finish(ctx, Permute(ctx, product, equation.output));
}

}  // namespace

absl::Span<const OperatorEntry> EinsumOperators() {
  static const OperatorEntry rows[] = {
      {"", "Einsum", "products", OperatorNeeds::kShapesOnly, LowerEinsum},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
