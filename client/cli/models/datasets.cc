// gpupool datasets: upload, list, get, describe, delete.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/models/data_options.h"
#include "client/cli/models/describe_view.h"
#include "client/cli/output/job_view.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

uint64_t TotalBytes(const v1::Dataset& dataset) {
  uint64_t bytes = 0;
  for (const v1::DatasetFile& file : dataset.files()) {
    bytes += file.total_bytes();
  }
  return bytes;
}

// Returns "1" for one number per row, and "2x3" for a tensor.
template <typename Shape>
std::string ArrayShapeText(const Shape& shape) {
  return shape.empty() ? "1" : absl::StrJoin(shape, "x");
}

// Returns "ids:128 mask:128".
std::string ArrayShapes(
    const google::protobuf::RepeatedPtrField<v1::DatasetArray>& arrays) {
  return absl::StrJoin(
      arrays, " ", [](std::string* out, const v1::DatasetArray& array) {
        absl::StrAppend(out, array.name(), ":", ArrayShapeText(array.shape()));
      });
}

std::string FeatureShape(const v1::Dataset& dataset) {
  return dataset.inputs().empty() ? absl::StrJoin(dataset.feature_shape(), "x")
                                  : ArrayShapes(dataset.inputs());
}

std::string LabelShape(const v1::Dataset& dataset) {
  return dataset.targets().empty() ? ArrayShapeText(dataset.labels().shape())
                                   : ArrayShapes(dataset.targets());
}

void PrintDatasets(const Context& context,
                   const v1::ListDatasetsResponse& datasets) {
  Table table({{"NAME"},
               {"FORMAT"},
               {"ROWS", Table::kRight},
               {"FEATURES", Table::kRight},
               {"LABELS", Table::kRight},
               {"CLASSES", Table::kRight},
               {"SIZE", Table::kRight},
               {"AGE", Table::kRight}});
  const absl::Time now = absl::Now();
  for (const v1::Dataset& dataset : datasets.datasets()) {
    const v1::DatasetFormat format = dataset.layout().format();
    table.AddRow({dataset.name(),
                  format == v1::DATASET_FORMAT_UNSPECIFIED
                      ? ""
                      : v1::DatasetFormat_Name(format),
                  absl::StrCat(dataset.rows()), FeatureShape(dataset),
                  LabelShape(dataset),
                  dataset.classes() > 0 ? absl::StrCat(dataset.classes()) : "",
                  FormatBytes(TotalBytes(dataset)),
                  Age(dataset.has_create_time(), dataset.create_time(), now)});
  }
  table.Print(context.out(), context.headers());
}

void PrintDataset(const Context& context, const v1::Dataset& dataset) {
  v1::ListDatasetsResponse one;
  *one.add_datasets() = dataset;
  PrintDatasets(context, one);
}

int UploadDataset(Context& context, const std::string& name,
                  const DataOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<DatasetUpload> upload =
      MakeUpload(**client, name, options);
  if (!upload.ok()) return context.Fail(upload.status());
  SayLeftOut(context, *upload);
  const absl::StatusOr<v1::Dataset> dataset =
      UploadDataset(**client, *upload, UploadLine(context, name));
  ClearUploadLine(context);
  if (!dataset.ok()) return context.Fail(dataset.status());
  context.Print(*dataset, [&] { PrintDataset(context, *dataset); });
  return kOk;
}

int ListDatasets(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::ListDatasetsRequest request;
  request.set_page_size(1000);
  v1::ListDatasetsResponse all;
  do {
    auto page = (*client)->ListDatasets(request);
    if (!page.ok()) return context.Fail(page.status());
    all.mutable_datasets()->MergeFrom(page->datasets());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  context.Print(all, [&] { PrintDatasets(context, all); });
  return kOk;
}

using DatasetPrinter = void (*)(const Context&, const v1::Dataset&);

int ShowDataset(Context& context, const std::string& name,
                DatasetPrinter print) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::GetDatasetRequest request;
  request.set_name(name);
  const absl::StatusOr<v1::Dataset> dataset = (*client)->GetDataset(request);
  if (!dataset.ok()) return context.Fail(dataset.status());
  context.Print(*dataset, [&] { print(context, *dataset); });
  return kOk;
}

int DeleteDataset(Context& context, const std::string& name) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::DeleteDatasetRequest request;
  request.set_name(name);
  const auto deleted = (*client)->DeleteDataset(request);
  if (!deleted.ok()) return context.Fail(deleted.status());
  context.Print(*deleted, [&] {
    context.Say(absl::StrCat("dataset ", name, " is deleted"));
  });
  return kOk;
}

void AddUpload(CLI::App& datasets, Invocation& invocation) {
  auto name = std::make_shared<std::string>();
  auto options = std::make_shared<DataOptions>();
  CLI::App* verb = AddVerb(
      datasets, "upload",
      "Store a table of examples under a name. Uploading the same bytes again "
      "changes nothing. CSV: one example per line, of numbers and text. JSON "
      "lines (.jsonl, .ndjson): one object per line, with the options of CSV. "
      "Files may be compressed (.gz). Images: a folder with a folder for each "
      "class, or tar archives of such folders or of NAME.jpg beside NAME.cls. "
      "Text (.txt): each byte, word of a table, or piece of a SentencePiece "
      "model is a token.",
      "  gpupool datasets upload digits examples/data/digits.csv.gz\n"
      "  gpupool datasets upload mnist images.idx3.gz --labels labels.idx1.gz\n"
      "  gpupool datasets upload homes homes.csv --header --label-columns "
      "price,rent\n"
      "  gpupool datasets upload people people.csv --header --missing mean \\\n"
      "      --text one-hot --skip-columns name\n"
      "  gpupool datasets upload plants plants.jsonl --label-columns kind\n"
      "  gpupool datasets upload reviews reviews.npz --input input_ids=ids \\\n"
      "      --input attention_mask=mask --target label=y\n"
      "  gpupool datasets upload pets pets/ --image-size 224\n"
      "  gpupool datasets upload book book.txt --tokenizer book.model");
  verb->add_option("NAME", *name, "Name for the dataset")->required();
  auto files = std::make_shared<std::vector<std::string>>();
  verb->add_option("FILE", *files,
                   "CSV, JSON lines, text, IDX, NPY or NPZ, which may be .gz; "
                   "a folder of images, or archives of them (.tar)")
      ->required();
  AddLayoutOptions(*verb, *options);
  invocation.On(verb, [name, files, options](Context& c) {
    options->file = files->front();
    options->more_files.assign(files->begin() + 1, files->end());
    return UploadDataset(c, *name, *options);
  });
}

}  // namespace

void AddDatasets(CLI::App& app, Invocation& invocation) {
  CLI::App* datasets =
      AddVerb(app, "datasets", "Upload, list, show and delete datasets.",
              "  gpupool datasets list");
  datasets->require_subcommand(1);
  AddUpload(*datasets, invocation);
  AddDatasetsTokenizer(*datasets, invocation);
  CLI::App* list = AddVerb(*datasets, "list", "List datasets.",
                           "  gpupool datasets list -o json");
  invocation.On(list, ListDatasets);

  auto name = std::make_shared<std::string>();
  CLI::App* get = AddVerb(*datasets, "get", "Show one dataset.",
                          "  gpupool datasets get digits");
  get->add_option("NAME", *name, "Name of the dataset")->required();
  invocation.On(
      get, [name](Context& c) { return ShowDataset(c, *name, PrintDataset); });
  CLI::App* describe = AddVerb(
      *datasets, "describe",
      "Show what a dataset holds: its columns or arrays with their ranges and "
      "categories, the rows of each class, and the first rows.",
      "  gpupool datasets describe digits");
  describe->add_option("NAME", *name, "Name of the dataset")->required();
  invocation.On(describe, [name](Context& c) {
    return ShowDataset(c, *name, PrintDescription);
  });
  CLI::App* remove = AddVerb(
      *datasets, "delete",
      "Delete a dataset. Refused while a job that has not ended uses it.",
      "  gpupool datasets delete digits");
  remove->add_option("NAME", *name, "Name of the dataset")->required();
  invocation.On(remove, [name](Context& c) { return DeleteDataset(c, *name); });
}

}  // namespace gpupool::client
