#include "server/control/upkeep/token_requests.h"

#include <utility>

#include "server/control/calls/enqueue.h"
#include "server/control/records/transaction.h"
#include "server/store/store.h"

namespace gpupool::server {

void StoreToken(const ControlContext& context, const v1::StoredToken& stored,
                Callback<v1::StoredToken> callback) {
  Enqueue<v1::StoredToken>(
      context, callback, [stored, callback](Transaction& transaction) {
        v1::StoredToken row = stored;
        if (row.token().id() == 0) {
          row.mutable_token()->set_id(
              transaction.store().AllocateId(IdKind::kToken));
        }
        transaction.batch().upsert_tokens.push_back(row);
        transaction.AfterCommit(
            [row = std::move(row), callback] { callback(row); });
      });
}

void NoteTokenUse(const ControlContext& context, uint64_t id, absl::Time time) {
  // A lost use is noted again within a minute of the next call.
  TryEnqueue(context, [id, time](Transaction& transaction) {
    transaction.batch().set_token_uses[id] = time;
  }).IgnoreError();
}

}  // namespace gpupool::server
