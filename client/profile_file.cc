#include "client/profile_file.h"

#include <functional>

#include "absl/strings/string_view.h"
#include "client/files/partial_file.h"

namespace gpupool::client {
namespace {

// Writes the file from what `stream` appends to it. Sets the file's bytes in
// `profile`, which `stream` fills in otherwise.
absl::StatusOr<ProfileFile> WriteProfile(
    const std::string& path,
    const std::function<absl::Status(PartialFile&, ProfileFile&)>& stream) {
  absl::StatusOr<PartialFile> file = PartialFile::Create(path);
  if (!file.ok()) return file.status();
  ProfileFile profile;
  absl::Status status = stream(*file, profile);
  if (status.ok()) status = file->Close();
  if (status.ok()) status = file->Replace();
  if (!status.ok()) return status;
  profile.bytes = file->bytes();
  return profile;
}

}  // namespace

absl::StatusOr<ProfileFile> ProfileJob(Client& client,
                                       const v1::ProfileJobRequest& request,
                                       const std::string& path) {
  return WriteProfile(path, [&](PartialFile& file, ProfileFile& profile) {
    return client.StreamJobProfile(request,
                                   [&](const v1::ProfileJobResponse& message) {
                                     if (message.steps() > 0)
                                       profile.steps = message.steps();
                                     return file.Append(message.chunk());
                                   });
  });
}

absl::StatusOr<ProfileFile> ProfileModel(Client& client,
                                         const v1::ProfileModelRequest& request,
                                         const std::string& path) {
  return WriteProfile(path, [&](PartialFile& file, ProfileFile& profile) {
    return client.StreamModelProfile(
        request, [&](const v1::ProfileModelResponse& message) {
          if (message.requests() > 0) profile.steps = message.requests();
          if (message.version() > 0) profile.version = message.version();
          return file.Append(message.chunk());
        });
  });
}

}  // namespace gpupool::client
