#include "server/repository/folder_scan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/job_limits.h"
#include "server/api/validation/convert.h"

namespace gpupool::server {
namespace {

// Limits of a repository. A folder with more is left out.
constexpr size_t kMostVersions = 1024;
// The model file and its external data.
constexpr size_t kMostFiles = engine::kMaxExternalFiles + 1;

// The highest number of a version. Versions that are uploaded later get higher
// numbers, which must fit as well.
constexpr uint64_t kMostVersionNumber = 1'000'000'000'000'000;

// Returns the number of a version's folder; 0 for a name that is none, such as
// "01".
uint64_t VersionNumber(const std::string& name) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(name, &number) || absl::StrCat(number) != name ||
      number > kMostVersionNumber) {
    return 0;
  }
  return number;
}

// One look at one root.
class RootScan {
 public:
  RootScan(const std::string& root, const ConfinedFolder& folder,
           RepositoryLook* look)
      : root_(root), folder_(folder), look_(*look) {}

  absl::Status Run() {
    const auto names = folder_.List(".");
    if (!names.ok()) return names.status();
    for (const std::string& name : *names) {
      if (name.front() != '.') AddModel(name);
    }
    return absl::OkStatus();
  }

 private:
  // Adds the line for the entry. The name of an entry may be anything, so it is
  // quoted.
  void Remark(const std::string& relative, absl::string_view text) {
    look_.remarks.push_back(
        absl::StrCat(root_, ": ", Quoted(relative), " ", text));
  }

  void AddModel(const std::string& name) {
    if (!IsFolder(name, "is left out: it is no folder of a model")) return;
    const absl::Status named = CheckName("the name of the folder", name);
    if (!named.ok()) {
      return Remark(name, absl::StrCat("is left out: ", named.message()));
    }
    const auto same = [&](const ModelFolder& model) {
      return model.name == name;
    };
    const auto first =
        std::find_if(look_.models.begin(), look_.models.end(), same);
    if (first != look_.models.end()) {
      return Remark(name, absl::StrCat("is left out: ", first->root,
                                       " has a model of this name, too"));
    }
    ModelFolder model{.root = root_, .name = name};
    const auto entries = folder_.List(name);
    if (!entries.ok()) return Remark(name, entries.status().message());
    for (const std::string& entry : *entries) AddPart(entry, &model);
    const auto by_number = [](const VersionFolder& a, const VersionFolder& b) {
      return a.number < b.number;
    };
    std::sort(model.versions.begin(), model.versions.end(), by_number);
    std::sort(model.empty_versions.begin(), model.empty_versions.end());
    look_.models.push_back(std::move(model));
  }

  // Adds one entry of the folder of a model.
  void AddPart(const std::string& entry, ModelFolder* model) {
    const std::string path = absl::StrCat(model->name, "/", entry);
    if (entry.front() == '.') return;
    if (entry == kInitialStateFolder) return AddInitialStates(path, model);
    if (entry == kConfigFileName) return AddConfig(path, model);
    const uint64_t number = VersionNumber(entry);
    if (number == 0 && AddLabels(path, entry, model)) return;
    if (number == 0) {
      return Remark(path,
                    absl::StrCat("is left out: it is no config.pbtxt and no "
                                 "folder whose name is a version, 1 to ",
                                 kMostVersionNumber));
    }
    if (!IsFolder(path, "is left out: it is no folder")) return;
    if (model->versions.size() + model->empty_versions.size() ==
        kMostVersions) {
      return Remark(path, absl::StrCat("is left out: the model has ",
                                       kMostVersions, " versions, the limit"));
    }
    AddVersion(path, number, model);
  }

  void AddConfig(const std::string& path, ModelFolder* model) {
    const auto entry = folder_.Look(path);
    if (!entry.ok()) {
      model->config_error = std::string(entry.status().message());
    } else if (entry->kind != EntryKind::kFile) {
      model->config_error = "is no regular file";
    } else {
      model->config = entry->stamp;
    }
  }

  // Adds a file that may have labels. Returns false if it is none: a folder, or
  // a file that belongs somewhere else or has another name.
  bool AddLabels(const std::string& path, const std::string& name,
                 ModelFolder* model) {
    if (absl::EndsWith(name, ".onnx") || absl::StartsWith(name, "config.") ||
        absl::EndsWith(name, ".pbtxt") || model->labels.size() == kMostFiles) {
      return false;
    }
    auto entry = folder_.Look(path);
    if (!entry.ok() || entry->kind != EntryKind::kFile) return false;
    model->labels.push_back(std::move(entry->stamp));
    return true;
  }

  // Other files than those that config.pbtxt names do no harm, and what cannot
  // be served is refused when it is read.
  void AddInitialStates(const std::string& path, ModelFolder* model) {
    const auto names = folder_.List(path);
    if (!names.ok()) return Remark(path, names.status().message());
    for (const std::string& name : *names) {
      const auto entry = folder_.Look(absl::StrCat(path, "/", name));
      if (!entry.ok() || entry->kind != EntryKind::kFile) continue;
      if (model->initial_states.size() == kMostFiles) {
        return Remark(path, absl::StrCat("has more than ", kMostFiles,
                                         " files; changes of the others are "
                                         "not noticed"));
      }
      model->initial_states.push_back(entry->stamp);
    }
  }

  void AddVersion(const std::string& path, uint64_t number,
                  ModelFolder* model) {
    const auto names = folder_.List(path);
    if (!names.ok()) return Remark(path, names.status().message());
    VersionFolder version{.number = number};
    bool has_model = false;
    bool is_empty = true;
    for (const std::string& name : *names) {
      if (name.front() == '.') continue;
      is_empty = false;
      if (!AddFile(absl::StrCat(path, "/", name), &version)) continue;
      has_model = has_model || name == kModelFileName;
    }
    if (is_empty) {
      model->empty_versions.push_back(number);
      return;
    }
    if (!has_model) {
      return Remark(path, "is left out: it has no file model.onnx");
    }
    if (version.files.size() > kMostFiles) {
      return Remark(path, absl::StrCat("is left out: it has more than ",
                                       kMostFiles, " files, the limit"));
    }
    model->versions.push_back(std::move(version));
  }

  // Adds the file to the version. Returns false if it was left out.
  bool AddFile(const std::string& path, VersionFolder* version) {
    auto entry = folder_.Look(path);
    if (!entry.ok()) {
      Remark(path, entry.status().message());
      return false;
    }
    if (entry->kind != EntryKind::kFile || entry->stamp.bytes == 0) {
      Remark(path, entry->kind == EntryKind::kFile
                       ? "is left out: it is empty"
                       : "is left out: it is no regular file");
      return false;
    }
    version->files.push_back(std::move(entry->stamp));
    return true;
  }

  bool IsFolder(const std::string& path, absl::string_view otherwise) {
    const auto entry = folder_.Look(path);
    if (entry.ok() && entry->kind == EntryKind::kFolder) return true;
    Remark(path, entry.ok() ? otherwise : entry.status().message());
    return false;
  }

  const std::string& root_;
  const ConfinedFolder& folder_;
  RepositoryLook& look_;
};

}  // namespace

RepositoryLook LookAtRepositories(absl::Span<const std::string> roots) {
  RepositoryLook look;
  for (const std::string& root : roots) {
    const auto folder = ConfinedFolder::Open(root);
    const absl::Status scanned =
        folder.ok() ? RootScan(root, *folder, &look).Run() : folder.status();
    if (scanned.ok()) continue;
    look.missing_roots.push_back(root);
    look.remarks.push_back(absl::StrCat(root, ": ", scanned.message()));
  }
  std::sort(look.models.begin(), look.models.end(),
            [](const ModelFolder& a, const ModelFolder& b) {
              return a.name < b.name;
            });
  return look;
}

}  // namespace gpupool::server
