#include "server/api/validation/convert.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/data_file_name.h"
#include "engine/base/image_limits.h"
#include "engine/base/job_limits.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/base/text_limits.h"
#include "gpupool/v1/limits.pb.h"
#include "server/api/validation/audio_layout_check.h"
#include "server/api/validation/csv_layout_check.h"
#include "server/api/validation/image_layout_check.h"
#include "server/api/validation/label_check.h"
#include "server/api/validation/sequence_options_check.h"
#include "server/api/validation/text_layout_check.h"
#include "server/api/validation/unread_table.h"
#include "server/control/records/rows.h"

namespace gpupool::server {
namespace {

constexpr size_t kMaxNameBytes = v1::MAX_NAME_BYTES;
constexpr size_t kMaxFileNameBytes = 255;
constexpr int kMaxLabelColumns = 65536;
constexpr size_t kMaxArrays = 64;
constexpr uint32_t kMaxServedBatch = v1::MAX_SERVED_ROWS;
constexpr uint32_t kMaxPrograms = v1::MAX_SERVED_PROGRAMS;
constexpr uint32_t kMaxQueue = 65536;
constexpr uint32_t kMaxDelayMicroseconds = 10'000'000;

bool IsNameByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '-' || c == '.';
}

// Returns whether the format is one table (CSV, NPZ); IDX and NPY are a pair of
// features and labels.
bool IsTable(v1::DatasetFormat format) {
  return format == v1::CSV || format == v1::NPZ;
}

// Checks one file and adds its size to `total_bytes`. Subtracts from the limit
// instead of adding to the total, which a hostile size could overflow.
absl::Status CheckFile(const v1::DatasetFile& file, uint64_t limit_bytes,
                       uint64_t* total_bytes) {
  if (file.file_name().size() > kMaxFileNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("files.file_name has ", file.file_name().size(),
                     " bytes, the limit is ", kMaxFileNameBytes));
  }
  if (file.total_bytes() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("file ", Quoted(file.file_name()), " is empty"));
  }
  if (!engine::IsSha256Hex(file.sha256())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the sha256 of file ", Quoted(file.file_name()),
                     " must be 64 lower-case hexadecimal digits"));
  }
  if (file.total_bytes() > limit_bytes - *total_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the dataset is larger than this server's limit of ", limit_bytes,
        " bytes (file ", Quoted(file.file_name()), " has ", file.total_bytes(),
        "); start gpupoold with a larger --dataset-limit"));
  }
  *total_bytes += file.total_bytes();
  return absl::OkStatus();
}

// Checks that the number of files goes with the format.
absl::Status CheckFileCount(v1::DatasetFormat format, int files) {
  if (format == v1::TEXT) {
    if (files <= engine::kMaxTextFiles) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("format TEXT takes 1 to ", engine::kMaxTextFiles,
                     " files, with the tokenizer; join files, got ", files));
  }
  const bool archives = HasArchives(format);
  const int most = archives ? engine::kMaxImageFiles : IsTable(format) ? 1 : 2;
  if (files <= most && (archives || files == most)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "format ", v1::DatasetFormat_Name(format), " takes ",
      archives ? "1 to " : "", most,
      archives          ? " archives; join archives"
      : IsTable(format) ? " file"
                        : " files (features and labels, gpupool: --labels)",
      ", got ", files));
}

// Fills in the format from the name of the first file, and checks that the
// number of files goes with it.
absl::Status FillFormat(v1::UploadDatasetRequest::Header* header) {
  v1::DatasetLayout* layout = header->mutable_layout();
  const std::string& file_name = header->files(0).file_name();
  RETURN_IF_ERROR(CheckNotPacked(*header));
  if (layout->format() == v1::DATASET_FORMAT_UNSPECIFIED) {
    RETURN_IF_ERROR(CheckTableName(file_name));
    layout->set_format(engine::FormatOfFileName<v1::DatasetFormat>(file_name));
  }
  if (layout->format() == v1::DATASET_FORMAT_UNSPECIFIED) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layout.format is not set and does not follow from the file name ",
        Quoted(file_name),
        " (gpupool: --format); known endings: .csv .jsonl .ndjson .idx .npy, "
        "also with .gz, "
        ".txt, .npz and .tar"));
  }
  if (!v1::DatasetFormat_IsValid(layout->format())) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.format has the unknown value ",
                     static_cast<int>(layout->format())));
  }
  RETURN_IF_ERROR(CheckTokenizerFormat(*header));
  return CheckFileCount(layout->format(), header->files_size());
}

// Checks that label columns are given in one way only, for CSV only.
absl::Status CheckLabelColumns(const v1::UploadDatasetRequest::Header& header) {
  const v1::DatasetLayout& layout = header.layout();
  const int count =
      std::max(layout.label_columns_size(), layout.label_names_size());
  if (count == 0) return absl::OkStatus();
  const int ways = (layout.has_label_column() ? 1 : 0) +
                   (layout.label_columns_size() > 0 ? 1 : 0) +
                   (layout.label_names_size() > 0 ? 1 : 0);
  if (ways > 1) {
    return absl::InvalidArgumentError(
        "layout has more than one of label_column, label_columns and "
        "label_names; set one");
  }
  if (layout.format() != v1::CSV) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layout.label_columns and label_names are for CSV, the format is ",
        v1::DatasetFormat_Name(layout.format()),
        "; put labels of several numbers into an array [rows, ...]"));
  }
  if (count > kMaxLabelColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout names ", count, " label columns, the limit is ",
                     kMaxLabelColumns, "; use NPZ for larger labels"));
  }
  if (layout.label_names_size() > 0 && !layout.has_header() &&
      !engine::IsJsonLinesName(header.files(0).file_name())) {
    return absl::InvalidArgumentError(
        "layout.label_names needs a header line; set has_header (gpupool: "
        "--header)");
  }
  for (const std::string& name : layout.label_names()) {
    if (name.size() <= kMaxFileNameBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("layout.label_names: ", Quoted(name), " has ", name.size(),
                     " bytes, the limit is ", kMaxFileNameBytes));
  }
  return absl::OkStatus();
}

// Checks one of the maps from names of inputs or targets to arrays.
absl::Status CheckArrays(
    const std::string& field,
    const google::protobuf::Map<std::string, std::string>& arrays,
    const v1::DatasetLayout& layout) {
  if (arrays.empty()) return absl::OkStatus();
  if (layout.format() != v1::NPZ) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is for NPZ, the format is ",
                     v1::DatasetFormat_Name(layout.format()),
                     "; save the arrays with numpy.savez"));
  }
  if (arrays.size() > kMaxArrays) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " names ", arrays.size(), " arrays, the limit is ", kMaxArrays));
  }
  for (const auto& [name, array] : arrays) {
    for (const std::string& text : {name, array}) {
      if (!text.empty() && text.size() <= kMaxFileNameBytes) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": ", Quoted(text), " has ", text.size(),
                       " bytes; 1 to ", kMaxFileNameBytes, " are possible"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNamedArrays(const v1::DatasetLayout& layout) {
  RETURN_IF_ERROR(
      CheckArrays("layout.input_arrays", layout.input_arrays(), layout));
  RETURN_IF_ERROR(
      CheckArrays("layout.target_arrays", layout.target_arrays(), layout));
  if (!layout.input_arrays().empty() && !layout.features_array().empty()) {
    return absl::InvalidArgumentError(
        "layout has both features_array and input_arrays; set one");
  }
  if (!layout.target_arrays().empty() && !layout.labels_array().empty()) {
    return absl::InvalidArgumentError(
        "layout has both labels_array and target_arrays; set one");
  }
  return absl::OkStatus();
}

// Fills in the roles of the files by their order, and checks given ones.
absl::Status FillRoles(v1::UploadDatasetRequest::Header* header) {
  if (HasArchives(header->layout().format())) return FillArchiveRoles(header);
  if (header->layout().format() == v1::TEXT) {
    return FillTextRoles(header);
  }
  if (IsTable(header->layout().format())) {
    v1::DatasetFile* file = header->mutable_files(0);
    if (file->role() == v1::DatasetFile::ROLE_UNSPECIFIED) {
      file->set_role(v1::DatasetFile::TABLE);
    }
    if (file->role() == v1::DatasetFile::TABLE) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "files.role must be TABLE for this format");
  }
  v1::DatasetFile* first = header->mutable_files(0);
  v1::DatasetFile* second = header->mutable_files(1);
  if (first->role() == v1::DatasetFile::ROLE_UNSPECIFIED &&
      second->role() == v1::DatasetFile::ROLE_UNSPECIFIED) {
    first->set_role(v1::DatasetFile::FEATURES);
    second->set_role(v1::DatasetFile::LABELS);
  }
  // The files may come in either order.
  const auto roles = std::minmax({first->role(), second->role()});
  if (roles.first == v1::DatasetFile::FEATURES &&
      roles.second == v1::DatasetFile::LABELS) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "files.role must be FEATURES for one file and LABELS for the other");
}

}  // namespace

std::string Quoted(absl::string_view value) {
  constexpr size_t kMaxShown = 64;
  const bool cut = value.size() > kMaxShown;
  size_t shown = std::min(value.size(), kMaxShown);
  // Do not cut inside a character of UTF-8.
  while (cut && shown > kMaxShown - 4 &&
         (static_cast<unsigned char>(value[shown]) & 0xC0) == 0x80) {
    --shown;
  }
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(value.substr(0, shown)),
                      cut ? "...\"" : "\"");
}

absl::Status CheckName(absl::string_view field, absl::string_view value) {
  if (value.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is not set"));
  }
  const bool good = value.size() <= kMaxNameBytes && value.front() != '.' &&
                    std::all_of(value.begin(), value.end(), IsNameByte);
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is ", Quoted(value), "; a name has 1 to ", kMaxNameBytes,
      " letters, digits, '_', '-' or '.' and does not begin with '.'"));
}

absl::Status CheckTenant(absl::string_view tenant) {
  RETURN_IF_ERROR(CheckName("tenant", tenant));
  if (!absl::StrContains(tenant, "..") && tenant.back() != '.') {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tenant is ", Quoted(tenant),
                   "; a '.' stands only between two levels, as in a.b"));
}

absl::Status CheckRequestId(absl::string_view request_id) {
  if (request_id.empty()) {
    return absl::InvalidArgumentError(
        "request_id is not set; make a random one for each job, and send the "
        "same one again when you retry");
  }
  if (request_id.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id has ", request_id.size(),
                     " bytes, the limit is ", kMaxNameBytes));
  }
  const auto printable = [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c)) || c == ' ';
  };
  if (std::all_of(request_id.begin(), request_id.end(), printable)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "request_id is ", Quoted(request_id), "; it must be printable ASCII"));
}

absl::Status CheckId(absl::string_view field, uint64_t id) {
  // The database has signed integers.
  if (id >= 1 && id <= std::numeric_limits<int64_t>::max()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", id, "; ids begin at 1"));
}

absl::Status CheckPrecision(absl::string_view field, v1::Precision precision) {
  if (v1::Precision_IsValid(precision)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", static_cast<int>(precision),
                   "; choose highest, high, bf16 or fp16"));
}

absl::Status CheckDevice(absl::string_view device) {
  absl::string_view index = device;
  uint32_t number = 0;
  if ((absl::ConsumePrefix(&index, "cpu:") ||
       absl::ConsumePrefix(&index, "cuda:")) &&
      !index.empty() && absl::ascii_isdigit(index.front()) &&
      absl::SimpleAtoi(index, &number) && number <= engine::kMaxDeviceIndex) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device is ", Quoted(device),
                   "; write it as \"cpu:0\" or \"cuda:1\", with a number from "
                   "0 to ",
                   engine::kMaxDeviceIndex, ", see `gpupool devices`"));
}

absl::Status CheckUploadHeader(v1::UploadDatasetRequest::Header* header,
                               uint64_t limit_bytes) {
  RETURN_IF_ERROR(CheckName("name", header->name()));
  if (header->files_size() < 1 ||
      header->files_size() > engine::kMaxImageFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("files has ", header->files_size(),
                     " entries; a dataset has 1 or 2, "
                     "or up to ",
                     engine::kMaxImageFiles,
                     " archives of images or recordings, or files of text"));
  }
  uint64_t total_bytes = 0;
  for (const v1::DatasetFile& file : header->files()) {
    RETURN_IF_ERROR(CheckFile(file, limit_bytes, &total_bytes));
  }
  RETURN_IF_ERROR(FillFormat(header));
  RETURN_IF_ERROR(CheckLabelColumns(*header));
  RETURN_IF_ERROR(CheckCsvLayout(header->layout()));
  RETURN_IF_ERROR(CheckNamedArrays(header->layout()));
  RETURN_IF_ERROR(CheckImageLayout(header->layout()));
  RETURN_IF_ERROR(CheckAudioLayout(header->layout()));
  RETURN_IF_ERROR(CheckTextLayout(header->layout()));
  return FillRoles(header);
}

absl::Status CheckServingOptions(absl::string_view field,
                                 v1::ServingOptions* options) {
  *options = WithDefaults(*options);
  struct Limit {
    const char* name;
    uint32_t value;
    uint32_t largest;
  };
  const Limit limits[] = {
      {"max_batch_size", options->max_batch_size(), kMaxServedBatch},
      {"max_queue_size", options->max_queue_size(), kMaxQueue},
      {"max_queue_delay_microseconds", options->max_queue_delay_microseconds(),
       kMaxDelayMicroseconds},
      {"max_programs", options->max_programs(), kMaxPrograms}};
  for (const Limit& limit : limits) {
    if (limit.value <= limit.largest) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".", limit.name, " is ", limit.value,
                     ", the limit is ", limit.largest));
  }
  RETURN_IF_ERROR(CheckSequenceOptions(absl::StrCat(field, ".sequences"),
                                       options->sequences()));
  if (options->decoupled() && options->has_sequences()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".decoupled and ", field,
        ".sequences are both set; a request of a sequence has one answer: "
        "remove one of them"));
  }
  RETURN_IF_ERROR(CheckLabels(field, *options));
  return CheckPrecision(absl::StrCat(field, ".precision"),
                        options->precision());
}

absl::Status CheckPromote(v1::PromoteCheckpointRequest* request) {
  RETURN_IF_ERROR(CheckId("job_id", request->job_id()));
  if (!request->model().empty()) {
    RETURN_IF_ERROR(CheckName("model", request->model()));
  }
  // Without options the job's own apply.
  if (!request->has_serving()) return absl::OkStatus();
  return CheckServingOptions("serving", request->mutable_serving());
}

absl::StatusOr<absl::Duration> WatchInterval(
    const v1::WatchDevicesRequest& request) {
  const double seconds =
      request.interval_seconds() == 0 ? 1 : request.interval_seconds();
  // Negates the whole range, so that NaN is refused, too.
  if (!(seconds >= 0.1 && seconds <= 3600)) {
    return absl::InvalidArgumentError(absl::StrCat("interval_seconds is ",
                                                   request.interval_seconds(),
                                                   "; it must be 0.1 .. 3600"));
  }
  return absl::Seconds(seconds);
}

}  // namespace gpupool::server
