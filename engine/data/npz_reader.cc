#include "engine/data/npz_reader.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/array_reader.h"
#include "engine/data/bytes/zip_archive.h"
#include "engine/data/npy_reader.h"

namespace gpupool::engine {
namespace {

// Returns an error that lists the arrays present.
absl::Status Missing(const ZipArchive& archive, absl::string_view name) {
  constexpr size_t kMostNames = 20;
  std::vector<std::string> names;
  for (const ZipMember& member : archive.members()) {
    if (names.size() == kMostNames) break;
    names.push_back(absl::CHexEscape(member.name));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "holds no array \"", name, "\"; it has: ", absl::StrJoin(names, ", ")));
}

// Checks that no array is there twice: readers differ in which one they take.
// A member "x.npy" is the array "x", and so is a member "x".
absl::Status CheckDistinct(const ZipArchive& archive) {
  constexpr absl::string_view kSuffix = ".npy";
  std::set<absl::string_view> arrays;
  for (const ZipMember& member : archive.members()) {
    absl::string_view array = member.name;
    absl::ConsumeSuffix(&array, kSuffix);
    if (arrays.insert(array).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "holds the array \"", absl::CHexEscape(array),
        "\" more than once; save each array once, under a name of its own"));
  }
  return absl::OkStatus();
}

// Opens the member that holds the array called `array`. Its stream goes to
// `opened`.
absl::StatusOr<OpenArray> OpenArrayMember(const ZipArchive& archive,
                                          const std::string& array,
                                          OpenArrays& opened) {
  const ZipMember* found = archive.Find(absl::StrCat(array, ".npy"));
  // numpy.savez adds .npy to the names; other writers may not.
  if (found == nullptr) found = archive.Find(array);
  if (found == nullptr) return Missing(archive, array);
  ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream,
                   archive.OpenMember(*found));
  auto header = ReadNpyHeader(*stream);
  if (!header.ok()) {
    return AtPlace(absl::StrCat("array \"", array, "\""), header.status());
  }
  opened.streams.push_back(std::move(stream));
  return OpenArray{.header = *std::move(header),
                   .stream = opened.streams.back().get()};
}

}  // namespace

absl::StatusOr<OpenArrays> OpenNpz(absl::string_view bytes,
                                   const NpzOptions& options,
                                   std::shared_ptr<const MappedFile> file) {
  ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(bytes));
  RETURN_IF_ERROR(CheckDistinct(archive));
  OpenArrays opened;
  const auto open = [&](const std::map<std::string, std::string>& arrays,
                        absl::string_view kind,
                        std::vector<OpenArray>& to) -> absl::Status {
    for (const auto& [name, array] : arrays) {
      ASSIGN_OR_RETURN(to.emplace_back(),
                       OpenArrayMember(archive, array, opened));
      to.back().name = name;
      to.back().title =
          absl::StrCat(kind, " \"", name, "\" (array \"", array, "\")");
      to.back().file = file;
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(open(options.input_arrays, "input", opened.inputs));
  RETURN_IF_ERROR(open(options.target_arrays, "target", opened.targets));
  if (opened.inputs.empty()) {
    RETURN_IF_ERROR(open({{"", options.features_array}}, "", opened.inputs));
    opened.inputs[0].title = "features";
  }
  if (opened.targets.empty()) {
    RETURN_IF_ERROR(open({{"", options.labels_array}}, "", opened.targets));
    opened.targets[0].title = "labels";
  }
  return opened;
}

absl::StatusOr<Table> ReadNpz(absl::string_view bytes,
                              const NpzOptions& options,
                              const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const OpenArrays arrays, OpenNpz(bytes, options, nullptr));
  return TableFromArrays(arrays.inputs, arrays.targets, limits);
}

}  // namespace gpupool::engine
