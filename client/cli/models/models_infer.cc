// gpupool models infer: sends the rows of a table to a served model and
// measures, or sends one request of tensors.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/models/infer_tensors.h"
#include "client/cli/models/model_view.h"
#include "client/cli/output/table.h"
#include "client/files/csv_rows.h"
#include "client/files/row_selection.h"
#include "client/inference.h"
#include "client/text/units.h"
#include "client/yaml/yaml_message.h"

namespace gpupool::client {
namespace {

struct InferOptions {
  std::string model;
  TensorOptions tensors;
  std::string data;
  int label_column = -1;
  bool no_labels = false;
  bool has_header = false;
  std::string rows = "all";
  std::string held_out_of;
  size_t concurrency = 1;
  size_t batch = 1;
  bool print = false;
};

struct Figures {
  size_t rows = 0;
  std::optional<double> accuracy;            // of a classifier
  std::optional<double> mean_squared_error;  // with one output per row
  double p50_ms = 0;
  double p99_ms = 0;
  double rows_per_second = 0;
};

absl::StatusOr<std::vector<size_t>> ChooseRows(const InferOptions& options,
                                               size_t rows) {
  if (options.held_out_of.empty()) return SelectRows(options.rows, rows);
  v1::JobSpec spec;
  absl::Status read = YamlFileToMessage(options.held_out_of, spec);
  if (!read.ok()) return read;
  return HeldOutRows(spec.data().held_out(), rows);
}

// Returns the number itself if a row has one output, else the class.
float Prediction(const InferenceRun& run, size_t row) {
  if (run.output_width == 1) return run.Row(row)[0];
  return static_cast<float>(ArgMax(run.Row(row)));
}

void Judge(const ChosenRows& rows, const InferenceRun& run, Figures& figures) {
  const std::vector<float>& labels = rows.table.labels;
  if (labels.empty() || run.rows == 0) return;
  size_t right = 0;
  double squares = 0;
  for (size_t i = 0; i < run.rows; ++i) {
    const double error = Prediction(run, i) - labels[rows.positions[i]];
    squares += error * error;
    if (error == 0) ++right;
  }
  const double count = static_cast<double>(run.rows);
  if (run.output_width > 1) {
    figures.accuracy = static_cast<double>(right) / count;
  } else {
    figures.mean_squared_error = squares / count;
  }
}

Figures Measure(const ChosenRows& rows, const InferenceRun& run) {
  Figures figures;
  figures.rows = run.rows;
  figures.p50_ms = Quantile(run.latencies_ms, 0.5);
  figures.p99_ms = Quantile(run.latencies_ms, 0.99);
  if (run.seconds > 0) {
    figures.rows_per_second = static_cast<double>(run.rows) / run.seconds;
  }
  Judge(rows, run, figures);
  return figures;
}

nlohmann::ordered_json ToJson(const Figures& figures) {
  nlohmann::ordered_json json;
  json["rows"] = figures.rows;
  json["accuracy"] = nullptr;
  if (figures.accuracy) json["accuracy"] = *figures.accuracy;
  if (figures.mean_squared_error) {
    json["mean_squared_error"] = *figures.mean_squared_error;
  }
  json["p50_ms"] = figures.p50_ms;
  json["p99_ms"] = figures.p99_ms;
  json["rows_per_second"] = figures.rows_per_second;
  return json;
}

void PrintPredictions(const Context& context, const ChosenRows& rows,
                      const InferenceRun& run) {
  Table lines({{"ROW", Table::kRight},
               {"PREDICTION", Table::kRight},
               {"LABEL", Table::kRight},
               {"OUTPUT"}});
  const auto& [table, positions] = rows;
  for (size_t i = 0; i < run.rows; ++i) {
    lines.AddRow(
        {absl::StrCat(positions[i]), absl::StrCat(Prediction(run, i)),
         table.labels.empty() ? "" : absl::StrCat(table.labels[positions[i]]),
         absl::StrJoin(run.Row(i), " ", [](std::string* out, float value) {
           absl::StrAppendFormat(out, "%.4g", value);
         })});
  }
  lines.Print(context.out(), context.headers());
}

void PrintFigures(const Context& context, const Figures& figures) {
  std::ostream& out = *context.out().stream;
  out << "rows:      " << figures.rows << "\n";
  if (figures.accuracy) {
    out << absl::StrFormat("accuracy:  %.2f%%\n", *figures.accuracy * 100);
  }
  if (figures.mean_squared_error) {
    out << absl::StrFormat("error:     %.6g (mean square)\n",
                           *figures.mean_squared_error);
  }
  out << absl::StrFormat("latency:   p50 %.3f ms, p99 %.3f ms a request\n",
                         figures.p50_ms, figures.p99_ms)
      << "rate:      " << FormatCount(figures.rows_per_second) << " rows/s\n";
}

void PrintRun(const Context& context, const InferOptions& options,
              const ChosenRows& rows, const InferenceRun& run) {
  const Figures figures = Measure(rows, run);
  if (context.options().output == OutputFormat::kTable) {
    if (options.print) PrintPredictions(context, rows, run);
    PrintFigures(context, figures);
    return;
  }
  nlohmann::ordered_json json = ToJson(figures);
  if (options.print) {
    for (size_t i = 0; i < run.rows; ++i) {
      json["predictions"].push_back({{"row", rows.positions[i]},
                                     {"prediction", Prediction(run, i)},
                                     {"output", run.Row(i)}});
    }
  }
  // JSON is YAML, so one form serves both.
  *context.out().stream << json.dump(2) << "\n";
}

int Infer(Context& context, InferOptions& options) {
  if (!options.tensors.inputs.empty()) {
    options.tensors.model = options.model;
    return InferTensors(context, options.tensors);
  }
  if (options.data.empty()) {
    return context.Fail(absl::InvalidArgumentError(
        "give rows with --data FILE, or tensors with --input NAME=FILE"));
  }
  const absl::StatusOr<VersionName> name = ParseVersionName(options.model);
  if (!name.ok()) return context.Fail(name.status());
  CsvOptions csv{.label_column = options.label_column,
                 .has_header = options.has_header};
  if (options.no_labels) csv.label_column.reset();
  const absl::StatusOr<CsvRows> table = ReadCsv(options.data, csv);
  if (!table.ok()) return context.Fail(table.status());
  const auto positions = ChooseRows(options, table->rows);
  if (!positions.ok()) return context.Fail(positions.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const InferenceOptions inference{
      .model = name->model,
      .version = name->version > 0 ? absl::StrCat(name->version) : "",
      .batch = options.batch,
      .concurrency = options.concurrency};
  const ChosenRows rows{.table = *table, .positions = *positions};
  const absl::StatusOr<InferenceRun> run =
      RunInference(**client, inference, rows);
  if (!run.ok()) return context.Fail(run.status());
  PrintRun(context, options, rows, *run);
  return kOk;
}

}  // namespace

void AddModelsInfer(CLI::App& models, Invocation& invocation) {
  auto options = std::make_shared<InferOptions>();
  CLI::App* verb = AddVerb(
      models, "infer",
      "Send the rows of a CSV file to a served model and print accuracy, "
      "latency and rate. Each request has one row, or as many as --batch says. "
      "With --input, send one request with tensors from files.",
      "  gpupool models infer digits --data examples/data/digits.csv.gz \\\n"
      "      --held-out-of examples/digits.yaml\n"
      "  gpupool models infer digits/2 --data new.csv --no-labels --print\n"
      "  gpupool models infer encoder --input ids=ids.npy --input "
      "mask=mask.json");
  verb->add_option("MODEL", options->model, "MODEL or MODEL/VERSION")
      ->required();
  auto* data =
      verb->add_option("--data", options->data, "The rows: CSV, may be .gz")
          ->type_name("FILE");
  auto* input =
      verb->add_option("--input", options->tensors.inputs,
                       "One input of the model as a whole tensor from a .npy "
                       "or .json file; repeat for each input")
          ->type_name("NAME=FILE")
          ->excludes(data);
  verb->add_option("--save", options->tensors.save,
                   "Write each output to this folder as .npy, and print the "
                   "files' names instead of the numbers")
      ->type_name("FOLDER")
      ->needs(input);
  auto* label = verb->add_option("--label-column", options->label_column,
                                 "Column of the label, from 0; negative "
                                 "numbers count from the end (default: -1)")
                    ->type_name("N");
  verb->add_flag("--no-labels", options->no_labels,
                 "The file has no label column")
      ->excludes(label);
  verb->add_flag("--header", options->has_header, "The first line holds names");
  auto* rows = verb->add_option("--rows", options->rows,
                                "all, every:N (rows N-1, 2N-1, ...), last:N "
                                "or A:B (default: all)")
                   ->type_name("ROWS");
  verb->add_option("--held-out-of", options->held_out_of,
                   "Only the rows that this job file holds out of training")
      ->type_name("FILE")
      ->excludes(rows);
  verb->add_option("--concurrency", options->concurrency,
                   "Requests in flight (default: 1)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  verb->add_option("--batch", options->batch,
                   "Rows in one request (default: 1)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  verb->add_flag("--print", options->print, "Print each row's prediction");
  invocation.On(verb, [options](Context& c) { return Infer(c, *options); });
}

}  // namespace gpupool::client
