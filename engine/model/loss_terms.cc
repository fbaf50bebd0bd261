#include "engine/model/loss_terms.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/autodiff/formula.h"
#include "engine/base/quoted_names.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/model/losses.h"

namespace gpupool::engine {
namespace {

// Copies the loss of one output to the place of the job's only loss.
void SetLoss(const v1::OutputLoss& loss, v1::TrainingSpec& training) {
  switch (loss.loss_case()) {
    case v1::OutputLoss::kCrossEntropy:
      *training.mutable_cross_entropy() = loss.cross_entropy();
      break;
    case v1::OutputLoss::kMeanSquaredError:
      *training.mutable_mean_squared_error() = loss.mean_squared_error();
      break;
    case v1::OutputLoss::kBceWithLogits:
      *training.mutable_bce_with_logits() = loss.bce_with_logits();
      break;
    case v1::OutputLoss::kL1:
      *training.mutable_l1() = loss.l1();
      break;
    case v1::OutputLoss::kHuber:
      *training.mutable_huber() = loss.huber();
      break;
    case v1::OutputLoss::kNegativeLogLikelihood:
      *training.mutable_negative_log_likelihood() =
          loss.negative_log_likelihood();
      break;
    case v1::OutputLoss::kKlDivergence:
      *training.mutable_kl_divergence() = loss.kl_divergence();
      break;
    case v1::OutputLoss::LOSS_NOT_SET:
      training.clear_loss();
      break;
  }
}

// Puts the place in the spec in front of an error of one of several losses.
absl::Status InTerm(const LossTerm& term, const absl::Status& status) {
  return term.only ? status : AtPlace(term.field, status);
}

// Renames the input for targets that the loss has just added, so that the next
// loss has one of its own.
absl::Status RenameTargets(absl::string_view prefix, absl::string_view suffix,
                           GraphBuilder& builder) {
  if (prefix.empty() && suffix.empty()) return absl::OkStatus();
  for (const char* name : {"labels", "target"}) {
    const Value* value = builder.graph().FindValue(name);
    // A weight of the model may have such a name.
    if (value == nullptr || value->kind != ValueKind::kInput) continue;
    RETURN_IF_ERROR(
        builder.Rename(value->id, absl::StrCat(prefix, name, suffix)));
  }
  return absl::OkStatus();
}

// Adds the loss for mixed rows.
absl::StatusOr<ValueId> AddMixedLoss(const LossTerm& term, ValueId output,
                                     GraphBuilder& builder) {
  ASSIGN_OR_RETURN(const ValueId other,
                   AddLoss(term.training, output, builder));
  RETURN_IF_ERROR(RenameTargets(kMixedPrefix, term.suffix, builder));
  ASSIGN_OR_RETURN(const ValueId own, AddLoss(term.training, output, builder));
  // Several losses of one program share it.
  ASSIGN_OR_RETURN(const ValueId lambda,
                   builder.Input(kMixLambdaName, {DType::kFloat32, {}}));
  autodiff::Formula f(&builder);
  const ValueId rest =
      f.Binary(BinaryFunction::kSubtract, f.Number(1, lambda), lambda);
  const ValueId sum = f.Binary(
      BinaryFunction::kAdd, f.Binary(BinaryFunction::kMultiply, own, lambda),
      f.Binary(BinaryFunction::kMultiply, other, rest));
  RETURN_IF_ERROR(f.status());
  return sum;
}

// Renames the outputs from position `first` on and drops those that only the
// leading loss has.
void RenameOutputs(const LossTerm& term, size_t first, Graph& graph) {
  if (term.leads) return;
  auto& outputs = graph.mutable_outputs();
  outputs.erase(
      std::remove_if(outputs.begin() + static_cast<long>(first), outputs.end(),
                     [](const GraphOutput& output) {
                       return output.name != "loss_sum" &&
                              output.name != "counted" &&
                              output.name != "weight_sum";
                     }),
      outputs.end());
  for (size_t i = first; i < outputs.size(); ++i) {
    absl::StrAppend(&outputs[i].name, term.suffix);
  }
}

// Moves the leading loss to the end. Every loss first gets the plain names,
// which only the last one keeps.
std::vector<LossTerm> LeadingLast(std::vector<LossTerm> terms) {
  std::stable_partition(terms.begin(), terms.end(),
                        [](const LossTerm& term) { return !term.leads; });
  return terms;
}

}  // namespace

std::vector<LossTerm> LossTermsOf(const v1::TrainingSpec& training) {
  if (training.losses().empty()) {
    return {{.training = training,
             .field = "training",
             .output = training.output()}};
  }
  std::vector<LossTerm> terms;
  for (const v1::OutputLoss& loss : training.losses()) {
    LossTerm term{.training = training,
                  .weight = loss.has_weight() ? loss.weight() : 1,
                  .field = absl::StrCat("training.losses[", terms.size(), "]"),
                  .output = loss.output(),
                  .target = loss.target(),
                  .suffix = absl::StrCat(".", terms.size()),
                  .leads = false,
                  .only = false};
    term.training.clear_losses();
    SetLoss(loss, term.training);
    terms.push_back(std::move(term));
  }
  const auto first = std::find_if(
      terms.begin(), terms.end(),
      [](const LossTerm& term) { return IsClassification(term.training); });
  LossTerm& leading = first == terms.end() ? terms.front() : *first;
  leading.leads = true;
  leading.suffix.clear();
  // Evaluations report accuracy and metrics of the leading loss.
  for (LossTerm& term : terms) {
    if (term.leads) continue;
    term.training.clear_top_k();
    term.training.clear_metrics();
  }
  return terms;
}

absl::Status CheckLossTerms(const v1::TrainingSpec& training) {
  if (training.losses().empty()) return absl::OkStatus();
  const auto refuse = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (training.losses_size() > kMaxLosses) {
    return refuse("training.losses has ", training.losses_size(),
                  " losses; the limit is ", kMaxLosses);
  }
  if (training.loss_case() != v1::TrainingSpec::LOSS_NOT_SET) {
    return refuse("training has both losses and ", LossName(training),
                  "; move it into losses");
  }
  if (!training.output().empty()) {
    return refuse(
        "training has both losses and output; name the output of each loss");
  }
  double sum = 0;
  for (const LossTerm& term : LossTermsOf(training)) {
    if (!(term.weight >= 0 && std::isfinite(term.weight))) {
      return refuse(term.field, ".weight is ", term.weight,
                    "; it must be at least 0 and finite");
    }
    sum += term.weight;
  }
  if (sum > 0) return absl::OkStatus();
  return refuse(
      "training.losses: every weight is 0, so nothing would be learned; give "
      "one a weight above 0");
}

absl::StatusOr<const ModelPort*> OutputOf(const LossTerm& term,
                                          const ModelGraph& model) {
  const ModelPort* found = nullptr;
  for (const ModelPort& port : model.outputs) {
    if (port.name == term.output) found = &port;
  }
  const std::string field = absl::StrCat(term.field, ".output");
  if (term.output.empty()) {
    if (term.only || model.outputs.size() == 1) {
      return &model.outputs[0];
    }
    return absl::InvalidArgumentError(absl::StrCat(
        field, " is missing; the model has ", QuotedNames(model.outputs)));
  }
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": the model has no output '", term.output,
                     "'; it has ", QuotedNames(model.outputs)));
  }
  if (!found->batched) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": '", term.output,
                     "' has no batch dimension, which the loss needs"));
  }
  return found;
}

absl::StatusOr<ValueId> AddLosses(const v1::TrainingSpec& training,
                                  const ModelGraph& model,
                                  GraphBuilder& builder) {
  ValueId sum;
  for (const LossTerm& term : LeadingLast(LossTermsOf(training))) {
    ASSIGN_OR_RETURN(const ModelPort* output, OutputOf(term, model));
    const auto loss = training.has_mix()
                          ? AddMixedLoss(term, output->value, builder)
                          : AddLoss(term.training, output->value, builder);
    if (!loss.ok()) return InTerm(term, loss.status());
    if (term.only) return loss;
    RETURN_IF_ERROR(RenameTargets("", term.suffix, builder));
    autodiff::Formula f(&builder);
    const ValueId weighted = f.Binary(BinaryFunction::kMultiply, *loss,
                                      f.Number(term.weight, *loss));
    sum =
        sum.valid() ? f.Binary(BinaryFunction::kAdd, sum, weighted) : weighted;
    RETURN_IF_ERROR(f.status());
  }
  return sum;
}

absl::StatusOr<ValueId> AddEvaluations(const v1::TrainingSpec& training,
                                       const ModelGraph& model,
                                       GraphBuilder& builder) {
  Graph& graph = builder.graph();
  ValueId sum;
  for (const LossTerm& term : LeadingLast(LossTermsOf(training))) {
    ASSIGN_OR_RETURN(const ModelPort* output, OutputOf(term, model));
    const size_t first = graph.outputs().size();
    RETURN_IF_ERROR(
        InTerm(term, AddEvaluation(term.training, output->value, builder)));
    RETURN_IF_ERROR(RenameTargets("", term.suffix, builder));
    RenameOutputs(term, first, graph);
    const ValueId loss =
        *graph.FindOutput(absl::StrCat("loss_sum", term.suffix));
    autodiff::Formula f(&builder);
    sum = sum.valid() ? f.Binary(BinaryFunction::kAdd, sum, loss) : loss;
    RETURN_IF_ERROR(f.status());
  }
  return sum;
}

}  // namespace gpupool::engine
