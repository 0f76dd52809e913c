// YieldPoint: where a long computation lets others at the device.
//
// Whoever runs it asks between parts of it, on the thread that it was called
// on, and lets go when others wait and its time is over.
//
// Example:
//   for (const Part& part : parts) {
//     Run(part);
//     if (yield_point->ShouldYield()) yield_point->Yield();
//   }

#ifndef TVARANT_DAEMON_BASE_YIELD_POINT_H_
#define TVARANT_DAEMON_BASE_YIELD_POINT_H_

namespace tvarant {

// Thread-compatible.
class YieldPoint {
 public:
  // Cheap: one load while nobody waits.
  virtual bool ShouldYield() const = 0;
  // Waits for its next turn.
  virtual void Yield() = 0;
  // How many of so many processors are its own, 1 or more: others that run now
  // have theirs.
  virtual int ProcessorShare(int processors) const = 0;
  // Whether others have been at work lately, and might wait soon: worth small
  // parts.
  virtual bool HasNeighbours() const = 0;

 protected:
  ~YieldPoint() = default;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_BASE_YIELD_POINT_H_
