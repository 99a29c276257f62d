// The studio: data in, policies out, and what they do while they learn.
import { installBanners } from "./studio/banners";
import { installDataList } from "./studio/data_list";
import { Events } from "./studio/events";
import { installGames } from "./studio/games";
import { installRunList } from "./studio/run_list";
import { installRunView } from "./studio/run_view";
import { installStartPanel } from "./studio/start_panel";
import { Store } from "./studio/store";
import { installUpload } from "./studio/upload";
import { installTheme, onTheme } from "./theme";

const at = (id: string): HTMLElement => document.getElementById(id)!;

const store = new Store();
installTheme(at("theme") as HTMLButtonElement);
onTheme(() => store.changed());
installBanners(at("banners"), store);
installUpload(at("data"), store);
installGames(at("data"), store);
installDataList(at("data"), store);
installRunList(at("runs"), store);
installStartPanel(at("start"), store);
installRunView(at("run"), store);

// The address after "#" is ours, so the link to skip the lists must not go there.
at("skip").onclick = (event) => {
  event.preventDefault();
  at("main").focus();
};
store.listen(() => {
  at("foot").textContent = store.version && `simile ${store.version}`;
});
new Events(
  (message) => store.take(message),
  (connection) => store.connected(connection),
);
