#include "client/profile_file.h"

#include "client/files/partial_file.h"

namespace gpupool::client {

absl::StatusOr<ProfileFile> ProfileJob(Client& client,
                                       const v1::ProfileJobRequest& request,
                                       const std::string& path) {
  absl::StatusOr<PartialFile> file = PartialFile::Create(path);
  if (!file.ok()) return file.status();
  ProfileFile profile;
  absl::Status status = client.StreamJobProfile(
      request, [&](const v1::ProfileJobResponse& message) {
        if (message.steps() > 0) profile.steps = message.steps();
        return file->Append(message.chunk());
      });
  if (status.ok()) status = file->Close();
  if (status.ok()) status = file->Replace();
  if (!status.ok()) return status;
  profile.bytes = file->bytes();
  return profile;
}

}  // namespace gpupool::client
