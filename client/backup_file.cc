#include "client/backup_file.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "client/files/partial_file.h"

namespace gpupool::client {

absl::StatusOr<uint64_t> BackUpDatabase(Client& client,
                                        const std::string& path) {
  std::error_code error;
  // Checks before the backup is made. Keep checks again.
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists; choose another name"));
  }
  absl::StatusOr<PartialFile> file = PartialFile::Create(path);
  if (!file.ok()) return file.status();
  uint64_t announced = 0;
  absl::Status status =
      client.StreamBackup({}, [&](const v1::BackUpDatabaseResponse& message) {
        if (message.has_header()) announced = message.header().total_bytes();
        return file->Append(message.chunk());
      });
  if (status.ok()) status = file->Close();
  if (status.ok() && (announced == 0 || file->bytes() != announced)) {
    status = absl::DataLossError(absl::StrCat("of the copy's ", announced,
                                              " bytes ", file->bytes(),
                                              " arrived; back up again"));
  }
  if (status.ok()) status = file->Keep();
  if (!status.ok()) return status;
  return file->bytes();
}

}  // namespace gpupool::client
