#include "server/control/models/dataset_requests.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/enqueue.h"
#include "server/control/jobs/admission.h"
#include "server/control/records/rows.h"
#include "server/control/records/taken_names.h"
#include "server/control/records/tenant_use.h"
#include "server/control/records/transaction.h"
#include "server/control/upkeep/tenant_quota.h"
#include "server/pool/worker_port.h"
#include "server/store/blob_store.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

using DatasetCallback = Callback<v1::Dataset>;

// Returns the stored dataset, for a request that is repeated. AlreadyExists
// when the name stands for other content, or is another tenant's.
absl::StatusOr<v1::Dataset> SameOrRefuse(const v1::Dataset& stored,
                                         const v1::Dataset& wanted) {
  if (!stored.tenant().empty() && !wanted.tenant().empty() &&
      stored.tenant() != wanted.tenant()) {
    return DatasetNameTaken(wanted.name());
  }
  if (SameContent(stored, wanted)) return stored;
  return absl::AlreadyExistsError(absl::StrCat(
      "dataset \"", wanted.name(),
      "\" exists with other content; choose another name or delete it first"));
}

// Returns whether this transaction deletes the dataset.
bool IsBeingDeleted(Transaction& transaction, uint64_t id) {
  const auto& gone = transaction.batch().delete_datasets;
  return std::find(gone.begin(), gone.end(), id) != gone.end();
}

// Returns the dataset that has the name now, including this transaction.
absl::StatusOr<std::optional<v1::Dataset>> Holder(Transaction& transaction,
                                                  const std::string& name) {
  for (const v1::Dataset& added : transaction.batch().upsert_datasets) {
    if (added.name() == name) return std::optional(added);
  }
  auto stored = transaction.store().GetDataset(name);
  if (absl::IsNotFound(stored.status())) return std::optional<v1::Dataset>();
  if (!stored.ok()) return stored.status();
  if (IsBeingDeleted(transaction, stored->id())) {
    return std::optional<v1::Dataset>();
  }
  return std::optional(*std::move(stored));
}

// Checks that the dataset's files are in the blob store.
absl::Status CheckBlobs(const ControlContext& context,
                        const v1::Dataset& dataset) {
  for (const v1::DatasetFile& file : dataset.files()) {
    if (context.blobs->Contains(file.sha256())) continue;
    return absl::UnavailableError(
        absl::StrCat("the bytes of \"", file.file_name(),
                     "\" were removed meanwhile; upload again"));
  }
  return absl::OkStatus();
}

// Adds the row, unless the name was taken while a worker read the rows.
void Add(const ControlContext& context, Transaction& transaction,
         v1::Dataset dataset, const DatasetCallback& callback) {
  auto holder = Holder(transaction, dataset.name());
  if (!holder.ok()) return callback(holder.status());
  if (holder->has_value()) {
    transaction.AfterCommit([answer = SameOrRefuse(**holder, dataset),
                             callback] { callback(answer); });
    return;
  }
  const absl::Status present = CheckBlobs(context, dataset);
  if (!present.ok()) return callback(present);
  const absl::Status room =
      CheckStoredRoom(transaction, dataset.tenant(), BytesOf(dataset));
  if (!room.ok()) return callback(room);
  dataset.set_id(transaction.store().AllocateId(IdKind::kDataset));
  *dataset.mutable_create_time() = ToTimestamp(transaction.now());
  transaction.batch().upsert_datasets.push_back(dataset);
  transaction.AfterCommit(
      [dataset = std::move(dataset), callback] { callback(dataset); });
}

// Deletes files of the deleted dataset that no other dataset has.
void DeleteBlobs(const ControlContext& context, const v1::Dataset& deleted) {
  auto others = context.store->LoadDatasets();
  if (!others.ok()) return;  // the sweep deletes them later
  absl::flat_hash_set<std::string> used;
  for (const v1::Dataset& other : *others) {
    for (const auto& file : other.files()) used.insert(file.sha256());
  }
  for (const auto& file : deleted.files()) {
    if (used.contains(file.sha256())) continue;
    // The sweep finds a blob that cannot be deleted now.
    context.blobs->Delete(file.sha256()).IgnoreError();
  }
}

// Deletes the row unless a job uses it. Files go after the commit only.
void Remove(const ControlContext& context, Transaction& transaction,
            const std::string& name,
            const Callback<v1::DeleteDatasetResponse>& callback) {
  auto dataset = FindDataset(*context.store, name);
  if (!dataset.ok()) return callback(dataset.status());
  if (const uint64_t user = transaction.ledger().UserOfDataset(name)) {
    return callback(absl::FailedPreconditionError(
        absl::StrCat("dataset \"", name, "\" is used by job ", user,
                     ", which has not ended; cancel it or wait")));
  }
  if (!IsBeingDeleted(transaction, dataset->id())) {
    transaction.batch().delete_datasets.push_back(dataset->id());
  }
  transaction.AfterCommit([&context, dataset = *dataset, callback] {
    DeleteBlobs(context, dataset);
    callback(v1::DeleteDatasetResponse());
  });
}

}  // namespace

void RegisterDataset(const ControlContext& context, const v1::Dataset& dataset,
                     DatasetCallback callback) {
  // Answers without the worker when the name is taken. Add asks again, since
  // the name may be taken while the worker reads.
  auto stored = context.store->GetDataset(dataset.name());
  if (stored.ok()) return callback(SameOrRefuse(*stored, dataset));
  if (!absl::IsNotFound(stored.status())) return callback(stored.status());
  const absl::Status room = context.store->CheckRoom();
  if (!room.ok()) return callback(room);
  worker::v1::ToWorker message;
  *message.mutable_inspect_dataset()->mutable_layout() = dataset.layout();
  *message.mutable_inspect_dataset()->mutable_files() = dataset.files();
  Ask<v1::Dataset>(
      context,
      {kMetaDevice, std::move(message), context.options.inspect_timeout},
      callback,
      [&context, dataset, callback](const worker::v1::FromWorker& reply) {
        v1::Dataset checked = dataset;
        checked.set_rows(reply.dataset().rows());
        *checked.mutable_feature_shape() = reply.dataset().feature_shape();
        checked.set_feature_type(reply.dataset().feature_type());
        checked.set_classes(reply.dataset().classes());
        if (reply.dataset().has_labels()) {
          *checked.mutable_labels() = reply.dataset().labels();
        }
        *checked.mutable_inputs() = reply.dataset().inputs();
        *checked.mutable_targets() = reply.dataset().targets();
        *checked.mutable_description() = reply.dataset().description();
        Enqueue<v1::Dataset>(
            context, callback,
            [&context, checked, callback](Transaction& transaction) {
              Add(context, transaction, checked, callback);
            });
      });
}

void DeleteDataset(const ControlContext& context, const std::string& name,
                   Callback<v1::DeleteDatasetResponse> callback) {
  Enqueue<v1::DeleteDatasetResponse>(
      context, callback, [&context, name, callback](Transaction& transaction) {
        Remove(context, transaction, name, callback);
      });
}

}  // namespace gpupool::server
