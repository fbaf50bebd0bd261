#include "engine/data/samples/samples.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/category_limits.h"
#include "engine/base/counted.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/base/utf8.h"
#include "engine/data/bytes/tar_archive.h"

namespace gpupool::engine {
namespace {

enum class MemberKind : uint8_t { kSample, kClass, kRefused, kOther };

// Returns the file's name without its folders.
absl::string_view BaseOf(absl::string_view name) {
  return name.substr(name.rfind('/') + 1);  // npos + 1 is 0
}

// Returns the name up to the first dot after its folders, which files of one
// sample share.
absl::string_view KeyOf(absl::string_view name) {
  const absl::string_view base = BaseOf(name);
  // This is the key of WebDataset: a file a.b.jpg belongs to a.cls.
  const size_t dot = base.find('.');
  return dot == absl::string_view::npos
             ? name
             : name.substr(0, name.size() - base.size() + dot);
}

bool IsHidden(absl::string_view name) {
  return absl::StartsWith(name, ".") || absl::StrContains(name, "/.") ||
         // macOS adds this folder to archives. Its files have the names of
         // images, but hold something else.
         absl::StartsWith(name, "__MACOSX/");
}

bool EndsWithAny(const std::string& name,
                 const std::vector<std::string>& endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&name](const std::string& ending) {
                       return absl::EndsWith(name, ending);
                     });
}

MemberKind KindOf(absl::string_view name, const SampleKind& kind) {
  const std::string lower = absl::AsciiStrToLower(BaseOf(name));
  if (EndsWithAny(lower, kind.endings)) return MemberKind::kSample;
  if (absl::EndsWith(lower, ".cls")) return MemberKind::kClass;
  return EndsWithAny(lower, kind.refused) ? MemberKind::kRefused
                                          : MemberKind::kOther;
}

std::string InQuotes(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text), "\"");
}

absl::Status CheckLabel(const std::string& label) {
  if (!label.empty() && label.size() <= kMaxCategoryBytes && IsUtf8(label)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "its class is ", InQuotes(label.substr(0, 2 * kMaxCategoryBytes)),
      "; a class has a name of 1 to ", kMaxCategoryBytes, " bytes in UTF-8"));
}

// The samples of all archives.
struct Found {
  std::vector<Sample> samples;
  bool by_files = false;  // classes are those of .cls files
};

// The members of one archive, sorted by their kinds.
struct SortedMembers {
  std::vector<TarMember> samples;
  absl::flat_hash_map<std::string, absl::string_view> classes;  // by key
};

absl::StatusOr<SortedMembers> SortMembers(std::vector<TarMember> members,
                                          const SampleKind& sample_kind) {
  SortedMembers sorted;
  absl::flat_hash_map<std::string, bool> seen;
  for (TarMember& member : members) {
    if (IsHidden(member.name)) continue;
    const MemberKind kind = KindOf(member.name, sample_kind);
    const std::string shown = absl::Utf8SafeCHexEscape(member.name);
    if (kind == MemberKind::kOther) continue;
    if (kind == MemberKind::kRefused) {
      return absl::InvalidArgumentError(
          absl::StrCat(shown, ": only ", sample_kind.formats,
                       " files can be read; convert it or leave it out"));
    }
    if (!seen.emplace(member.name, true).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(shown,
                       " is there more than once; store each file once, "
                       "under a name of its own"));
    }
    if (kind == MemberKind::kClass) {
      sorted.classes[std::string(KeyOf(member.name))] = member.bytes;
    } else {
      sorted.samples.push_back(std::move(member));
    }
  }
  return sorted;
}

// Returns the text of the class of a sample of an archive.
absl::StatusOr<std::string> LabelOf(const Sample& sample,
                                    const SortedMembers& members, bool by_files,
                                    const SampleKind& kind) {
  if (by_files) {
    const auto label = members.classes.find(KeyOf(sample.name));
    if (label != members.classes.end()) {
      return std::string(absl::StripAsciiWhitespace(label->second));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        PlaceOf(sample), " has no class: other ", kind.noun,
        "s have a file NAME.cls beside ", kind.example, "; add it"));
  }
  const size_t slash = sample.name.find('/');
  if (slash != std::string::npos) return sample.name.substr(0, slash);
  return absl::InvalidArgumentError(absl::StrCat(
      PlaceOf(sample),
      " has no class; put it into a folder with the name of its class, "
      "or a file NAME.cls with the class beside it"));
}

absl::StatusOr<Found> FindLabelled(absl::Span<const SampleArchive> archives,
                                   const SampleKind& kind) {
  std::vector<SortedMembers> all;
  Found found;
  for (const SampleArchive& archive : archives) {
    auto members = ReadTar(archive.bytes);
    if (!members.ok()) return AtPlace(archive.name, members.status());
    auto sorted = SortMembers(*std::move(members), kind);
    if (!sorted.ok()) return AtPlace(archive.name, sorted.status());
    found.by_files = found.by_files || !sorted->classes.empty();
    all.push_back(*std::move(sorted));
  }
  // Whether classes come from files is known only after all archives were read.
  for (size_t i = 0; i < all.size(); ++i) {
    for (TarMember& member : all[i].samples) {
      Sample sample = {archives[i].name, std::move(member.name), member.bytes,
                       ""};
      ASSIGN_OR_RETURN(sample.label,
                       LabelOf(sample, all[i], found.by_files, kind));
      RETURN_IF_ERROR(AtPlace(PlaceOf(sample), CheckLabel(sample.label)));
      found.samples.push_back(std::move(sample));
    }
  }
  if (!found.samples.empty()) return found;
  return absl::InvalidArgumentError(absl::StrCat(
      archives[0].name, ": holds no ", kind.noun, " (", kind.listed_endings,
      "); store ", kind.noun, "s as CLASS/", kind.example,
      ", or with a file NAME.cls beside each ", kind.example));
}

// Returns the number of a class without a name, which a .cls file may hold.
std::optional<int64_t> ClassNumber(const std::string& label) {
  uint32_t number = 0;
  const bool digits =
      std::all_of(label.begin(), label.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(label, &number) ||
      number >= kMaxCategories) {
    return std::nullopt;
  }
  return number;
}

absl::Status CheckClassCount(const Found& found, const SampleKind& kind,
                             const std::map<std::string, int64_t>& numbers) {
  const std::string& name = numbers.begin()->first;
  const bool numbered = found.by_files && ClassNumber(name).has_value();
  if (numbers.size() == 1 && !numbered) {
    return absl::InvalidArgumentError(absl::StrCat(
        Counted(found.samples.size(), std::string(kind.noun)),
        " of one class only, ", InQuotes(name), "; two or more are needed",
        found.by_files ? ""
                       : ": folders at the top of the archive are the classes, "
                         "so make it inside of the folder that holds them, "
                         "with `tar -C FOLDER -cf FILE .`"));
  }
  size_t bytes = 0;
  for (const auto& [label, number] : numbers) bytes += label.size();
  if (numbers.size() <= kMaxCategories && bytes <= kMaxCategoryNames) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      numbers.size(), " classes with names of ", bytes,
      " bytes; the limits are ", kMaxCategories, " classes and ",
      kMaxCategoryNames, " bytes: join classes or give them shorter names"));
}

// Returns the numbers by class name.
absl::StatusOr<std::map<std::string, int64_t>> NumberClasses(
    const Found& found, const SampleKind& kind,
    const std::vector<std::string>& given) {
  std::map<std::string, int64_t> numbers;
  for (const std::string& name : given) {
    numbers.emplace(name, static_cast<int64_t>(numbers.size()));
  }
  if (!given.empty()) return numbers;
  for (const Sample& sample : found.samples) numbers.emplace(sample.label, 0);
  RETURN_IF_ERROR(CheckClassCount(found, kind, numbers));
  int64_t next = 0;
  // The map is sorted, so the numbers do not depend on the order of the files.
  for (auto& [name, number] : numbers) number = next++;
  return numbers;
}

absl::StatusOr<SampleClasses> FindClasses(
    const Found& found, const SampleKind& kind,
    const std::vector<std::string>& given) {
  ASSIGN_OR_RETURN(auto numbers, NumberClasses(found, kind, given));
  // If all classes are numbers, they are used as they are, and gaps stay.
  const bool plain =
      given.empty() && found.by_files &&
      std::all_of(numbers.begin(), numbers.end(), [](const auto& entry) {
        return ClassNumber(entry.first).has_value();
      });
  SampleClasses classes;
  if (!plain) {
    classes.names.resize(numbers.size());
    for (const auto& [name, number] : numbers) {
      classes.names[static_cast<size_t>(number)] = name;
    }
  }
  for (const Sample& sample : found.samples) {
    if (plain) {
      classes.of_samples.push_back(*ClassNumber(sample.label));
      continue;
    }
    const auto number = numbers.find(sample.label);
    if (number == numbers.end()) {
      const size_t shown = std::min<size_t>(5, classes.names.size());
      return absl::InvalidArgumentError(absl::StrCat(
          PlaceOf(sample), " is of the class ", InQuotes(sample.label),
          ", which is none of the ", classes.names.size(),
          " classes that layout.categories names (",
          absl::StrJoin(absl::MakeSpan(classes.names).first(shown), ", "),
          shown < classes.names.size() ? ", ...)" : ")"));
    }
    classes.of_samples.push_back(number->second);
  }
  return classes;
}

}  // namespace

std::string PlaceOf(const Sample& sample) {
  return absl::StrCat(sample.archive, ": ",
                      absl::Utf8SafeCHexEscape(sample.name));
}

absl::StatusOr<Samples> FindSamples(absl::Span<const SampleArchive> archives,
                                    const SampleKind& kind,
                                    const std::vector<std::string>& classes) {
  ASSIGN_OR_RETURN(Found found, FindLabelled(archives, kind));
  ASSIGN_OR_RETURN(SampleClasses numbered, FindClasses(found, kind, classes));
  return Samples{std::move(found.samples), std::move(numbered)};
}

}  // namespace gpupool::engine
