// A file of a rollout.

import "./view.js";
import "./player.js";
