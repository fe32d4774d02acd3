// Pages whose charts are in the page itself.

import "./view.js";
import { drawCharts } from "./chart.js";

drawCharts();
