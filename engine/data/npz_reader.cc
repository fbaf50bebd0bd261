#include "engine/data/npz_reader.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/data/array_reader.h"
#include "engine/data/npy_reader.h"
#include "engine/data/zip_archive.h"

namespace gpupool::engine {
namespace {

struct Member {
  std::unique_ptr<ByteStream> stream;
  ArrayHeader header;
};

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

absl::StatusOr<Member> OpenArrayMember(const ZipArchive& archive,
                                       absl::string_view name) {
  const ZipMember* found = archive.Find(absl::StrCat(name, ".npy"));
  // numpy.savez adds .npy to the names; other writers may not.
  if (found == nullptr) found = archive.Find(name);
  if (found == nullptr) return Missing(archive, name);
  Member member;
  ASSIGN_OR_RETURN(member.stream, archive.OpenMember(*found));
  auto header = ReadNpyHeader(*member.stream);
  if (!header.ok()) {
    return absl::Status(
        header.status().code(),
        absl::StrCat("array \"", name, "\": ", header.status().message()));
  }
  member.header = *std::move(header);
  return member;
}

}  // namespace

absl::StatusOr<Table> ReadNpz(absl::string_view bytes,
                              const NpzOptions& options,
                              const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(bytes));
  ASSIGN_OR_RETURN(const Member features,
                   OpenArrayMember(archive, options.features_array));
  ASSIGN_OR_RETURN(const Member labels,
                   OpenArrayMember(archive, options.labels_array));
  return TableFromArrays({features.header, features.stream.get()},
                         {labels.header, labels.stream.get()}, limits);
}

}  // namespace gpupool::engine
