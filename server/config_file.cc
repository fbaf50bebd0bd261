#include "server/config_file.h"

#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "scheduler/text/named_words.h"
#include "server/settings.h"

namespace gpupool::server {
namespace {

using scheduler::NamedWords;

// The separator between the items of a list, as in the one-line form.
constexpr char kItemSeparator[] = "+";

// Returns " at line 3, column 5", or nothing where yaml-cpp does not know.
std::string At(const YAML::Mark& mark) {
  if (mark.is_null()) return "";
  return absl::StrCat(" at line ", mark.line + 1, ", column ", mark.column + 1);
}

bool IsUtf8(const std::string& text) {
  try {
    // The strict dump throws for anything else.
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

// Returns an error for a key of the map that is given twice.
absl::Status CheckKeysDiffer(const YAML::Node& map) {
  std::set<std::string> keys;
  for (const auto& pair : map) {
    if (!pair.first.IsScalar()) continue;  // refused where it is read
    if (keys.insert(WithDashes(pair.first.Scalar())).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("\"", pair.first.Scalar(),
                                                   "\"", At(pair.first.Mark()),
                                                   " is given twice"));
  }
  return absl::OkStatus();
}

// Returns the items of a list of scalars with `separator` between them.
absl::StatusOr<std::string> JoinItems(const YAML::Node& list,
                                      absl::string_view separator) {
  std::vector<std::string> items;
  for (const YAML::Node& item : list) {
    if (!item.IsScalar()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an item", At(item.Mark()), " is no single value; write [a, b]"));
    }
    items.push_back(item.Scalar());
  }
  return absl::StrJoin(items, separator);
}

absl::StatusOr<NamedWords::Word> ReadWord(const std::string& key,
                                          const YAML::Node& value) {
  NamedWords::Word word{.key = WithDashes(key), .where = At(value.Mark())};
  if (value.IsSequence()) {
    ASSIGN_OR_RETURN(word.value, JoinItems(value, kItemSeparator));
  } else if (value.IsScalar()) {
    word.value = value.Scalar();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(key, word.where, " must be a value or a list of values"));
  }
  return word;
}

// Returns an entry of a list such as queues: `name` and its words, each with
// the place for errors.
absl::StatusOr<NamedWords> ReadEntry(const YAML::Node& node) {
  const std::string where = At(node.Mark());
  if (!node.IsMap()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the entry", where,
                     " must be \"name: ...\" with what is "
                     "set for it, as in {name: shop, most: 2}"));
  }
  RETURN_IF_ERROR(CheckKeysDiffer(node));
  NamedWords entry{.name = "", .where = where};
  bool has_name = false;
  for (const auto& pair : node) {
    if (!pair.first.IsScalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a key", At(pair.first.Mark()), " must be a word"));
    }
    const std::string& key = pair.first.Scalar();
    if (key == "name" && pair.second.IsScalar()) {
      entry.name = pair.second.Scalar();
      has_name = true;
      continue;
    }
    ASSIGN_OR_RETURN(NamedWords::Word word, ReadWord(key, pair.second));
    entry.words.push_back(std::move(word));
  }
  if (has_name) return entry;
  return absl::InvalidArgumentError(absl::StrCat(
      "the entry", where, " has no name; write \"name: ...\" in it"));
}

absl::Status ReadEntries(const Setting& setting, const YAML::Node& list,
                         Config* config) {
  std::vector<NamedWords> entries;
  for (const YAML::Node& node : list) {
    ASSIGN_OR_RETURN(NamedWords entry, ReadEntry(node));
    entries.push_back(std::move(entry));
  }
  return setting.kind.set_entries(entries, config);
}

// Returns the forms that a value of the key may have, for errors.
std::string Takes(const Setting& setting) {
  if (setting.kind.set_entries != nullptr) {
    return "takes a list of entries with names, or one line of text";
  }
  if (setting.kind.separator != 0) return "takes a value or a list of values";
  return absl::StrCat("takes one value, ", setting.name, ": ",
                      setting.kind.value_name);
}

// Sets the value from a list of entries, a list of scalars or a scalar,
// whichever forms the setting takes.
absl::Status SetNode(const Setting& setting, const YAML::Node& value,
                     Config* config) {
  if (value.IsScalar()) return setting.kind.set(value.Scalar(), config);
  if (value.IsSequence() && setting.kind.set_entries != nullptr) {
    return ReadEntries(setting, value, config);
  }
  if (value.IsSequence() && setting.kind.separator != 0) {
    ASSIGN_OR_RETURN(const std::string text,
                     JoinItems(value, std::string(1, setting.kind.separator)));
    return setting.kind.set(text, config);
  }
  return absl::InvalidArgumentError(Takes(setting));
}

// Returns the value as an error shows it. Lists of entries are not repeated.
std::string Shown(const YAML::Node& value) {
  if (value.IsScalar()) return absl::StrCat(" is \"", value.Scalar(), "\"");
  if (value.IsSequence()) {
    const absl::StatusOr<std::string> items = JoinItems(value, ", ");
    return items.ok() ? absl::StrCat(" is [", *items, "]") : " is a list";
  }
  return value.IsMap() ? " is a map" : " is empty";
}

absl::Status UnknownKey(const YAML::Node& key) {
  const std::string nearest = NearestSetting(key.Scalar());
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown key \"", key.Scalar(), "\"", At(key.Mark()), "; ",
      nearest.empty() ? "" : absl::StrCat("did you mean \"", nearest, "\"? "),
      "gpupoold --help lists the names"));
}

// Applies one key. An unknown key is an error that suggests the nearest one.
absl::Status Apply(const YAML::Node& key, const YAML::Node& value,
                   Config* config) {
  if (!key.IsScalar()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "every key must be the name of a setting", At(key.Mark())));
  }
  const Setting* setting = FindSetting(key.Scalar());
  if (setting == nullptr) return UnknownKey(key);
  const absl::Status status = SetNode(*setting, value, config);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(setting->name, Shown(value), At(value.Mark()), ": ",
                   std::string(status.message())));
}

absl::Status ApplyAll(const YAML::Node& root, Config* config) {
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) {
    return absl::InvalidArgumentError("the file must hold \"name: value\"");
  }
  RETURN_IF_ERROR(CheckKeysDiffer(root));
  for (const auto& entry : root) {
    RETURN_IF_ERROR(Apply(entry.first, entry.second, config));
  }
  return absl::OkStatus();
}

// Applies the one document of the text.
absl::Status ApplyText(const std::string& text, Config* config) {
  const auto bad = absl::c_find_if(text, [](unsigned char byte) {
    return byte == 0x7f || (byte < 0x20 && !absl::ascii_isspace(byte));
  });
  if (bad != text.end() || !IsUtf8(text)) {
    return absl::InvalidArgumentError(
        "it has bytes that are no text; is it the right file?");
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat("a second document begins",
                                                     At(documents[1].Mark()),
                                                     "; one is expected"));
    }
    return documents.empty() ? absl::OkStatus()
                             : ApplyAll(documents[0], config);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

// Returns the content of a regular file. Opening another one, such as a pipe,
// could block for ever.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (error) {
    return absl::ErrnoToStatus(error.value(), "cannot be read");
  }
  if (type != std::filesystem::file_type::regular) {
    return absl::InvalidArgumentError(
        "cannot be read; is it a file? Folders, pipes and devices are not");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, "cannot be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

absl::Status ReadConfigFile(const std::string& path, Config* config) {
  const absl::StatusOr<std::string> text = ReadRegularFile(path);
  const absl::Status status =
      text.ok() ? ApplyText(*text, config) : text.status();
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("configuration file ", path, ": ",
                                   std::string(status.message())));
}

}  // namespace gpupool::server
