#include "tests/conformance/onnx/operator_table.h"

#include <onnx/defs/schema.h>

#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/status_macros.h"
#include "engine/graph/ops.h"
#include "engine/import/onnx/graph/control_flow.h"
#include "engine/import/onnx/graph/functions.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/graph/sequences.h"
#include "tests/conformance/onnx/cases.h"
#include "tests/conformance/onnx/expected_unsupported.h"
#include "tests/conformance/onnx/operator_survey.h"

namespace gpupool::engine::onnx_import {
namespace {

using Survey = std::map<OperatorKey, OperatorFacts>;

constexpr absl::string_view kIntroduction =
    R"(# Operators

This page lists the ONNX operators that can be imported, and the ops that they
become. It is generated from the tables in the sources and from the imported
official test cases of ONNX 1.12. A test fails when the page is out of date, and
writes it when `GPUPOOL_WRITE_DOCS=1` is set.

All of these operators can be imported for inference and for training. A model
with other operators is refused. The error lists them by node.

## Official cases

Each case runs on the reference kernels and on the CPU with the tolerance of
the official runner (rtol 1e-3, atol 1e-7, integers exact).

| family | cases | pass | do not |
|---|---|---|---|
)";

constexpr absl::string_view kExplanation = R"(
## Cases of newer versions

Files of IR version 3 to 13 and operator sets 1 to 27 (ONNX 1.22) are read. This
runs the cases of any version, in the folder `onnx/backend/test/data` of ONNX:

```
ONNX_CASES_DIR=FOLDER onnx_conformance_test --gtest_filter='*OnnxCase.Cpu/node*' --gtest_brief=1
```

A case that is refused is skipped, with the reason. One that is computed wrong
fails; those of the table above are skipped. So are `test_dft_inverse` and
`test_dft_inverse_opset19`, which have zeros where the inverse of their rounded
inputs is 1e-6. In August 2026 ONNX had 1802 cases of nodes: 1713 pass, and none fails.
## ONNX operators

| column | value | meaning |
|---|---|---|
| numbers | yes | the sizes of the results, or the computation itself, depend on the numbers in an input |
| gradient | yes, part, no | a gradient exists for all, some or none of the pairs of a floating input and a floating output in the cases |
| gradient | - | there is no such pair |
| CPU | fast | the cases with float32 inputs run on optimized kernels, after the passes of the compiler |
| CPU | reference | they run on the reference kernels, which are correct but slow |
| CPU | part | some cases run on fast kernels, others on reference kernels |
| CPU | import | everything is computed while the model is imported |
| cases | 4 of 4 | the official cases that pass, of all cases with this operator alone |
| cases | 4 of 4* | the official cases that pass, of all cases in which the operator occurs |
| element types | | the types of the inputs in these cases, as ONNX names them |

- Numbers that a shape depends on come from constants or from shapes. If they depend
  on an input of the model, that input is bound, and there is one program for each of
  its values. Compress, If, Loop, NonMaxSuppression, NonZero, Slice and Unique also
  take computed numbers when a model is served ([models.md](models.md)).
- If an operator has no case with float32 inputs, all its cases count for the column
  CPU. Other element types run on the reference kernels, except for movement of data.
- With `*`, the other columns also describe all cases in which the operator occurs. If
  no case passes, they describe a small model of our own, or are empty.
- uint16, int16, uint32 and uint64 are widened to int32 and int64. Inputs and outputs
  keep their types ([models.md](models.md#onnx-files)).
- float8 and float4 are held as float16 (FLOAT8E8M0 as float32), and integers of 2
  and 4 bits as int8 and uint8. Such weights are not trained. Cast, CastLike and
  QuantizeLinear round to these types, except to FLOAT8E8M0.
- BitCast takes integers only.
- Operators without cases, such as CumProd and DeformConv, are made of the ops below
  like all others. LinearAttention becomes some nodes per token, and a transform a
  product with matrices of up to 4 million numbers.

The operators of `com.microsoft` are those that ONNX Runtime's quantisers and its
optimizer of transformers write. `tests/conformance/onnx/peer_cases.py` compares them,
and those of `ai.onnx.ml`, with ONNX Runtime, in 233 cases.

- Products of 8-bit codes are computed as float32 products of centered codes. Between
  DequantizeLinear and QuantizeLinear, convolutions and sums compute with the codes
  themselves on CPUs with VNNI instructions ([graph_compiler.md](graph_compiler.md)).
- DynamicQuantizeMatMul takes its scale from all rows of a request, as
  DynamicQuantizeLinear does. So requests to such a model are not batched.
- MatMulNBits takes weights of 4 and 8 bits. They stay packed in memory. On a CPU, a
  few rows multiply the codes as they are, and for many rows panels are unpacked.
- Attention, QAttention, MultiHeadAttention and GroupQueryAttention give `present` as
  a new tensor and take `past` as an input. A buffer that both share, cached keys in
  8 bits, and the masks of packed sequences are refused.
- GroupQueryAttention takes the number of keys from `total_sequence_length` where that
  follows from constants or shapes. Otherwise the new keys follow all rows of the past.

The operators of `ai.onnx.ml` are those that converters of scikit-learn, XGBoost and
LightGBM write.

- Texts are in [models of texts](models.md#models-of-texts) only. A classifier with labels
  of text gives the place of the class among the labels, as int64, and a warning lists
  the labels.
- ZipMap passes the tensor of scores through, with one column for each class.
- All trees of an ensemble are one table, which rows walk through. A tree may have 1000
  levels, and all trees 4 million nodes.
- Where both of two classes have weights in trees, the larger score is the class. ONNX
  Runtime compares the second score with 0, and gives 0 and 1 instead of the labels.
- SVMClassifier couples the probabilities of up to 20 classes.

There is no column for GPUs. Every op on this page has a kernel in the CUDA module.
The tests run the cases on the sources of these kernels, compiled for the host.
[gpu_status.md](gpu_status.md) says what has run on a real GPU.
)";

constexpr absl::string_view kTableHead =
    "\n| operator | family | numbers | gradient | CPU | cases | element types "
    "|\n"
    "|---|---|---|---|---|---|---|\n";

struct OperatorRow {
  std::string domain;
  std::string name;
  std::string family;
  bool needs_numbers = false;
};

std::string TitleOf(const std::string& domain) {
  return domain.empty() ? "ai.onnx" : domain;
}

// Returns the newest version of each standard schema, by domain and name.
std::vector<onnx::OpSchema> Schemas() {
  std::map<OperatorKey, onnx::OpSchema> newest;
  for (const onnx::OpSchema& schema :
       onnx::OpSchemaRegistry::get_all_schemas()) {
    if (schema.deprecated()) continue;
    newest.emplace(OperatorKey(schema.domain(), schema.Name()), schema);
  }
  std::vector<onnx::OpSchema> schemas;
  for (const auto& [key, schema] : newest) schemas.push_back(schema);
  return schemas;
}

std::map<OperatorKey, OperatorRow> Rows() {
  std::map<OperatorKey, OperatorRow> rows;
  for (const OperatorEntry& entry : Operators()) {
    const OperatorKey key(entry.domain, entry.name);
    rows[key] = {key.first, key.second, std::string(entry.family),
                 entry.needs == OperatorNeeds::kNumbers};
  }
  for (const onnx::OpSchema& schema : Schemas()) {
    const OperatorKey key(schema.domain(), schema.Name());
    if (rows.contains(key) || !key.first.empty()) continue;
    if (FindControlFlow(key.second) != nullptr) {
      rows[key] = {key.first, key.second, "control flow", true};
    } else if (IsSequenceOperator(key.second)) {
      rows[key] = {key.first, key.second, "sequence", true};
    } else if (HasSchemaFunction(key.first, key.second,
                                 kDescribedOperatorSet)) {
      rows[key] = {key.first, key.second, "expanded", false};
    }
  }
  return rows;
}

std::string FamiliesTable() {
  std::map<std::string, std::pair<int, int>> families;  // all, not passing
  for (const Case& test : AllCases()) {
    auto& [all, failing] = families[test.family];
    ++all;
    failing += !WhyUnsupported(test.name).empty();
  }
  std::string text;
  for (const auto& [family, counts] : families) {
    const auto& [all, failing] = counts;
    absl::StrAppend(&text, "| ", family, " | ", all, " | ", all - failing,
                    " | ", failing, " |\n");
  }
  return text;
}

std::string UnsupportedCases() {
  std::map<std::string, std::vector<std::string>> cases;
  for (const Case& test : AllCases()) {
    const absl::string_view reason = WhyUnsupported(test.name);
    if (!reason.empty()) {
      cases[std::string(reason)].push_back(absl::StrCat("`", test.name, "`"));
    }
  }
  std::string text = "\nThese do not pass:\n\n| why | cases |\n|---|---|\n";
  for (const auto& [reason, names] : cases) {
    absl::StrAppend(&text, "| ", reason, " | ", absl::StrJoin(names, ", "),
                    " |\n");
  }
  return text;
}

std::string CasesCell(const OperatorFacts& facts) {
  if (facts.cases == 0) return "none";
  return absl::StrCat(facts.passing, " of ", facts.cases,
                      facts.alone ? "" : "*");
}

std::string Line(const OperatorRow& row, const Survey& survey) {
  const std::string start =
      absl::StrCat("| ", row.name, " | ", row.family, " | ",
                   row.needs_numbers ? "yes" : "", " | ");
  const auto found = survey.find(OperatorKey(row.domain, row.name));
  if (found == survey.end()) {
    return absl::StrCat(start, "- | - | none | |\n");
  }
  const OperatorFacts& facts = found->second;
  return absl::StrCat(start, GradientCell(facts), " | ", CpuCell(facts), " | ",
                      CasesCell(facts), " | ",
                      absl::AsciiStrToLower(absl::StrJoin(facts.types, ", ")),
                      " |\n");
}

std::string OperatorTables(const std::map<OperatorKey, OperatorRow>& rows,
                           const Survey& survey) {
  std::string text;
  std::string domain = "none yet";
  for (const auto& [key, row] : rows) {
    if (row.domain != domain) {
      domain = row.domain;
      absl::StrAppend(&text, "\n### ", TitleOf(domain), "\n", kTableHead);
    }
    absl::StrAppend(&text, Line(row, survey));
  }
  return text;
}

std::string MissingOperators(const std::map<OperatorKey, OperatorRow>& rows) {
  std::vector<std::string> names;
  for (const onnx::OpSchema& schema : Schemas()) {
    if (rows.contains(OperatorKey(schema.domain(), schema.Name()))) continue;
    names.push_back(schema.domain().empty()
                        ? schema.Name()
                        : absl::StrCat(schema.domain(), ".", schema.Name()));
  }
  return absl::StrCat("\n### Not supported\n\nOf operator set ",
                      kDescribedOperatorSet, ": ", absl::StrJoin(names, ", "),
                      "; and other operators of com.microsoft.\n");
}

std::string MissingGradients(const Survey& survey) {
  std::string text =
      "\n### Without a gradient\n\nSome outputs of these operators have no "
      "gradient:\n\n| operator | why |\n|---|---|\n";
  for (const auto& [key, facts] : survey) {
    if (facts.refusals.empty()) continue;
    absl::StrAppend(&text, "| ", key.second, " | ",
                    absl::StrJoin(facts.refusals, "; "), " |\n");
  }
  return text;
}

std::string CoreOps() {
  std::string text =
      "\n## Ops of the graph\n\nOperators become these ops. Passes and "
      "training add others. The names are those of\n`gpupool-worker explain`. "
      "*reference* means that even float32 runs on the reference\nkernel. "
      "Every op has a kernel in the CUDA module, but for the last four,\n"
      "which are made for CPUs only.\n\n"
      "| op | gradient | CPU, float32 |\n|---|---|---|\n";
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& info = Info(static_cast<Op>(i));
    absl::StrAppend(
        &text, "| ", info.name, " | ", info.differentiable ? "yes" : "", " | ",
        IsFastOnCpu(info.op, DType::kFloat32) ? "fast" : "reference", " |\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> OperatorsPage() {
  ASSIGN_OR_RETURN(const Survey survey, SurveyOperators());
  const std::map<OperatorKey, OperatorRow> rows = Rows();
  return absl::StrCat(kIntroduction, FamiliesTable(), UnsupportedCases(),
                      kExplanation, OperatorTables(rows, survey),
                      MissingGradients(survey), MissingOperators(rows),
                      CoreOps());
}

}  // namespace gpupool::engine::onnx_import
