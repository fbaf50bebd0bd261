#include "client/cli/models/check_view.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/models/plan_view.h"
#include "client/cli/output/table.h"
#include "client/text/counted.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

// Most operators that are listed by name.
constexpr int kMostOperators = 12;

std::string OperatorSets(const v1::OnnxFacts& onnx) {
  std::vector<std::string> sets;
  for (const v1::OperatorSet& set : onnx.operator_sets()) {
    sets.push_back(absl::StrCat(set.domain(), " ", set.version()));
  }
  return sets.empty() ? "none" : absl::StrJoin(sets, ", ");
}

std::string Operators(const v1::OnnxFacts& onnx) {
  const int shown = std::min(onnx.operators_size(), kMostOperators);
  std::vector<std::string> counts;
  for (int i = 0; i < shown; ++i) {
    counts.push_back(
        absl::StrCat(onnx.operators(i).nodes(), " ", onnx.operators(i).name()));
  }
  std::string text = absl::StrJoin(counts, ", ");
  if (onnx.operators_size() > shown) {
    absl::StrAppend(&text, " and ", onnx.operators_size() - shown,
                    " other kinds");
  }
  return text.empty() ? "none" : text;
}

std::string StoredText(const v1::OnnxFacts& onnx) {
  std::vector<std::string> parts;
  for (const v1::StoredTensors& stored : onnx.stored()) {
    parts.push_back(absl::StrCat(stored.type(), " ",
                                 GroupDigits(stored.elements()), " in ",
                                 Counted(stored.tensors(), "tensor")));
  }
  return parts.empty() ? "nothing" : absl::StrJoin(parts, ", ");
}

void PrintOnnx(const v1::OnnxFacts& onnx, std::ostream& out) {
  out << "  format     ONNX, IR version " << onnx.ir_version()
      << ", operator sets " << OperatorSets(onnx) << "\n";
  if (!onnx.producer().empty()) {
    out << "  producer   " << onnx.producer() << "\n";
  }
  out << "  operators  " << Operators(onnx) << "\n"
      << "  stored     " << StoredText(onnx) << "\n";
}

void PrintUses(const Context& context, const v1::ModelCheck& check) {
  Table table({{"USE"},
               {"POSSIBLE"},
               {"ROWS", Table::kRight},
               {"PEAK", Table::kRight},
               {"FLOPS", Table::kRight}});
  const v1::ServingCheck& serving = check.serving();
  const v1::TrainingCheck& training = check.training();
  if (serving.has_plan()) {
    table.AddRow(
        {"serve", "yes", absl::StrCat(serving.max_batch_size()),
         FormatBytes(serving.plan().inference().peak()),
         FormatCount(
             static_cast<double>(serving.plan().inference_flops_per_example()) *
             serving.max_batch_size())});
  } else {
    table.AddRow({"serve", "no", "", "", ""});
  }
  if (training.has_bytes()) {
    table.AddRow({"train", "yes", absl::StrCat(training.batch_size()),
                  FormatBytes(training.bytes().peak()),
                  FormatCount(static_cast<double>(training.flops()))});
  } else {
    table.AddRow({"train", "no", "", "", ""});
  }
  table.Print(context.out(), context.headers());
}

void PrintRefusals(const v1::ModelCheck& check, std::ostream& out) {
  const std::string& serving = check.serving().refused();
  const std::string& training = check.training().refused();
  if (!serving.empty()) out << "not served: " << serving << "\n";
  if (!training.empty() && training != serving) {
    out << "not trained: " << training << "\n";
  }
}

}  // namespace

void PrintCheck(const Context& context, const v1::ModelCheck& check) {
  std::ostream& out = *context.out().stream;
  const v1::Plan& plan = check.serving().plan();
  out << check.file();
  if (check.serving().has_plan()) {
    out << ": " << GroupDigits(plan.parameters()) << " parameters, "
        << FormatCount(static_cast<double>(plan.inference_flops_per_example()))
        << " FLOPs per example";
  }
  out << "\n";
  if (check.has_onnx()) PrintOnnx(check.onnx(), out);
  out << "\n";
  if (check.serving().has_plan()) {
    PrintTensors(context, plan);
    out << "\n";
  }
  PrintUses(context, check);
  PrintRefusals(check, out);
  for (const std::string& warning : check.warnings()) {
    context.Say(absl::StrCat("warning: ", warning));
  }
}

}  // namespace gpupool::client
