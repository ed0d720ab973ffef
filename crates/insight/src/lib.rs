//! Joins the events of all layers and hosts, and names the layer that holds a SAN back
