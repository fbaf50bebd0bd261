#include "engine/data/image_reader.h"

#include <algorithm>
#include <array>
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
#include "engine/data/column_buffer.h"
#include "engine/data/image/decode.h"

namespace gpupool::engine {
namespace {

enum class MemberKind : uint8_t { kImage, kClass, kOtherImage, kOther };

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

MemberKind KindOf(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(BaseOf(name));
  const auto ends = [&lower](absl::string_view ending) {
    return absl::EndsWith(lower, ending);
  };
  if (ends(".jpg") || ends(".jpeg") || ends(".png")) return MemberKind::kImage;
  if (ends(".cls")) return MemberKind::kClass;
  constexpr std::array kOthers = {".webp", ".gif",  ".bmp",  ".tif",
                                  ".tiff", ".heic", ".avif", ".jp2"};
  const bool other = std::any_of(kOthers.begin(), kOthers.end(), ends);
  return other ? MemberKind::kOtherImage : MemberKind::kOther;
}

// One image of the data set.
struct Sample {
  const ImageArchive* archive;
  std::string name;
  absl::string_view bytes;
  std::string label;  // the text of its class
};

std::string PlaceOf(const Sample& sample) {
  return absl::StrCat(sample.archive->name, ": ",
                      absl::Utf8SafeCHexEscape(sample.name));
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
struct Samples {
  std::vector<Sample> samples;
  bool by_files = false;  // classes are those of .cls files
};

// The members of one archive, sorted by their kinds.
struct ImageMembers {
  std::vector<TarMember> images;
  absl::flat_hash_map<std::string, absl::string_view> classes;  // by key
};

absl::StatusOr<ImageMembers> SortMembers(std::vector<TarMember> members) {
  ImageMembers sorted;
  absl::flat_hash_map<std::string, bool> seen;
  for (TarMember& member : members) {
    if (IsHidden(member.name)) continue;
    const MemberKind kind = KindOf(member.name);
    const std::string shown = absl::Utf8SafeCHexEscape(member.name);
    if (kind == MemberKind::kOther) continue;
    if (kind == MemberKind::kOtherImage) {
      return absl::InvalidArgumentError(absl::StrCat(
          shown,
          ": only JPEG and PNG files can be read; convert it or leave "
          "it out"));
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
      sorted.images.push_back(std::move(member));
    }
  }
  return sorted;
}

absl::StatusOr<Samples> FindSamples(absl::Span<const ImageArchive> archives) {
  std::vector<ImageMembers> all;
  Samples found;
  for (const ImageArchive& archive : archives) {
    auto members = ReadTar(archive.bytes);
    if (!members.ok()) return AtPlace(archive.name, members.status());
    auto sorted = SortMembers(*std::move(members));
    if (!sorted.ok()) return AtPlace(archive.name, sorted.status());
    found.by_files = found.by_files || !sorted->classes.empty();
    all.push_back(*std::move(sorted));
  }
  // Whether classes come from files is known only after all archives were read.
  for (size_t i = 0; i < all.size(); ++i) {
    for (TarMember& image : all[i].images) {
      Sample sample = {&archives[i], std::move(image.name), image.bytes, ""};
      if (found.by_files) {
        const auto label = all[i].classes.find(KeyOf(sample.name));
        if (label == all[i].classes.end()) {
          return absl::InvalidArgumentError(
              absl::StrCat(PlaceOf(sample),
                           " has no class: other images have a file "
                           "NAME.cls beside NAME.jpg; add it"));
        }
        sample.label = std::string(absl::StripAsciiWhitespace(label->second));
      } else if (sample.name.find('/') == std::string::npos) {
        return absl::InvalidArgumentError(absl::StrCat(
            PlaceOf(sample),
            " has no class; put it into a folder with the name of its class, "
            "or a file NAME.cls with the class beside it"));
      } else {
        sample.label = sample.name.substr(0, sample.name.find('/'));
      }
      RETURN_IF_ERROR(AtPlace(PlaceOf(sample), CheckLabel(sample.label)));
      found.samples.push_back(std::move(sample));
    }
  }
  if (!found.samples.empty()) return found;
  return absl::InvalidArgumentError(absl::StrCat(
      archives[0].name,
      ": holds no image (.jpg, .jpeg or .png); store images as CLASS/NAME.jpg, "
      "or with a file NAME.cls beside each NAME.jpg"));
}

// The classes of a data set.
struct Classes {
  std::vector<std::string> names;   // by number; empty: they have none
  std::vector<int64_t> of_samples;  // by sample
};

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

absl::Status CheckClassCount(const Samples& found,
                             const std::map<std::string, int64_t>& numbers) {
  const std::string& name = numbers.begin()->first;
  const bool numbered = found.by_files && ClassNumber(name).has_value();
  if (numbers.size() == 1 && !numbered) {
    return absl::InvalidArgumentError(absl::StrCat(
        Counted(found.samples.size(), "image"), " of one class only, ",
        InQuotes(name), "; two or more are needed",
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
    const Samples& found, const ImageOptions& options) {
  std::map<std::string, int64_t> numbers;
  for (const std::string& name : options.classes) {
    numbers.emplace(name, static_cast<int64_t>(numbers.size()));
  }
  if (!options.classes.empty()) return numbers;
  for (const Sample& sample : found.samples) numbers.emplace(sample.label, 0);
  RETURN_IF_ERROR(CheckClassCount(found, numbers));
  int64_t next = 0;
  // The map is sorted, so the numbers do not depend on the order of the files.
  for (auto& [name, number] : numbers) number = next++;
  return numbers;
}

absl::StatusOr<Classes> FindClasses(const Samples& found,
                                    const ImageOptions& options) {
  ASSIGN_OR_RETURN(auto numbers, NumberClasses(found, options));
  // If all classes are numbers, they are used as they are, and gaps stay.
  const bool plain =
      options.classes.empty() && found.by_files &&
      std::all_of(numbers.begin(), numbers.end(), [](const auto& entry) {
        return ClassNumber(entry.first).has_value();
      });
  Classes classes;
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

// Adds the pixels channel by channel.
absl::Status AppendPlanes(const DecodedImage& image, ColumnBuffer& buffer) {
  const size_t pixels = size_t{image.width} * image.height;
  std::vector<char> planes(image.pixels.size());
  for (size_t c = 0; c < image.channels; ++c) {
    for (size_t i = 0; i < pixels; ++i) {
      // Decoders give the channels of a pixel side by side. The engine wants
      // one plane for each channel.
      planes[c * pixels + i] =
          static_cast<char>(image.pixels[i * image.channels + c]);
    }
  }
  return buffer.Append(planes);
}

// Decodes samples to one size.
class ImageRows {
 public:
  ImageRows(const Samples& found, const ImageOptions& options)
      : samples_(found.samples), options_(options), size_(options.size) {}

  // Takes the size from the first image if the options have none.
  absl::Status FindSize() {
    if (size_.width != 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const DecodedImage first, Decode(samples_[0]));
    size_ = {first.width, first.height};
    return absl::OkStatus();
  }

  ImageSize size() const { return size_; }

  absl::Status DecodeAll(ColumnBuffer& buffer) const {
    for (const Sample& sample : samples_) {
      ASSIGN_OR_RETURN(DecodedImage image, Decode(sample));
      const bool same =
          image.width == size_.width && image.height == size_.height;
      if (!same && options_.size.width == 0) return OtherSize(sample, image);
      if (!same) image = ResizeImage(image, size_, options_.fit);
      RETURN_IF_ERROR(AppendPlanes(image, buffer));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<DecodedImage> Decode(const Sample& sample) const {
    auto image = DecodeImage(sample.bytes, options_.channels);
    if (!image.ok()) return AtPlace(PlaceOf(sample), image.status());
    return image;
  }

  absl::Status OtherSize(const Sample& sample,
                         const DecodedImage& image) const {
    return absl::InvalidArgumentError(absl::StrCat(
        PlaceOf(sample), " has ", image.width, " x ", image.height,
        " pixels, but the first image, ",
        absl::Utf8SafeCHexEscape(samples_[0].name), ", has ", size_.width,
        " x ", size_.height,
        "; set layout.image_height and image_width, so that images are resized "
        "(gpupool: --image-size ",
        std::min(size_.width, size_.height), ")"));
  }

  const std::vector<Sample>& samples_;
  const ImageOptions& options_;
  ImageSize size_;
};

absl::Status CheckTableSize(uint64_t rows, uint64_t row_bytes,
                            const ReadLimits& limits) {
  if (CheckedTableBytes(rows, row_bytes, limits).ok()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      rows, " images of ", row_bytes, " bytes each exceed the limit of ",
      limits.max_table_bytes,
      " bytes for an unpacked dataset; set a smaller layout.image_height and "
      "image_width (gpupool: --image-size)"));
}

}  // namespace

absl::StatusOr<Table> ReadImages(absl::Span<const ImageArchive> archives,
                                 const ImageOptions& options,
                                 const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const Samples found, FindSamples(archives));
  ASSIGN_OR_RETURN(Classes classes, FindClasses(found, options));
  ImageRows rows(found, options);
  RETURN_IF_ERROR(rows.FindSize());
  Table table;
  table.rows = found.samples.size();
  Column pixels = {
      .type = ElementType::kUint8,
      .stored = ElementType::kUint8,
      .shape = {options.channels, rows.size().height, rows.size().width},
      .rows = table.rows,
      .width =
          uint64_t{options.channels} * rows.size().height * rows.size().width};
  Column labels = {.type = ElementType::kInt64,
                   .stored = ElementType::kInt64,
                   .rows = table.rows};
  const uint64_t row_bytes = pixels.row_bytes() + labels.row_bytes();
  RETURN_IF_ERROR(CheckTableSize(table.rows, row_bytes, limits));
  // A table that is larger than memory allows is unpacked into a file.
  const bool on_disk = table.rows * row_bytes > limits.memory_bytes &&
                       !limits.unpack_dir.empty();
  const auto place = [&](ColumnBuffer& buffer, const Column& column) {
    return on_disk ? buffer.MoveToDisk(limits.unpack_dir)
                   : buffer.Reserve(column.rows * column.row_bytes());
  };
  ColumnBuffer pixel_bytes, label_bytes;
  RETURN_IF_ERROR(place(pixel_bytes, pixels));
  RETURN_IF_ERROR(rows.DecodeAll(pixel_bytes));
  RETURN_IF_ERROR(pixel_bytes.MoveTo(pixels));
  RETURN_IF_ERROR(place(label_bytes, labels));
  RETURN_IF_ERROR(label_bytes.Append(
      {reinterpret_cast<const char*>(classes.of_samples.data()),
       classes.of_samples.size() * sizeof(int64_t)}));
  RETURN_IF_ERROR(label_bytes.MoveTo(labels));
  labels.facts = SummarizeLabels(labels);
  table.inputs.push_back(std::move(pixels));
  table.targets.push_back(std::move(labels));
  table.class_names = std::move(classes.names);
  return table;
}

}  // namespace gpupool::engine
